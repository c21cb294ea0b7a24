"""The mathematics of the lab's methods: pure functions with the papers' symbols; one file a paper.

Shapes, orientation and symbols are those of `attribune.functional`; filters are described with `Filters`. The
parameters and their names in the papers:

| function | parameter | shape | in the paper |
|---|---|---|---|
| `attribute_interaction` | `W_1`, `c_1`, `W_2`, `c_2` | Z Z, Z, Z Z, Z | those of the interaction |
| `attribute_gate` | `v` | B M H | the vectors of the attributes |
| `attribute_gate` | `W_g`, `b_g` | GH MH, GH | the gate of the attributes, for G of them |
| `shared_vector` | `W_m`, `b_m`, `E` | Z H, Z, U Z | the map of the mean state, and the vectors of all values |
| `frequency_gate` | `scale`, `shape` | H, H | λ, k |
| `bilinear_attention_pool` | `W`, `W_a`, `c`, `v` | Z H, A H, A, A | those of the attention |
| `basis_coefficients` | `W_q`, `b_q`, `K` | A MZ, A, N A | the query's map, and the keys of the bases |
| `mixed_bases` | `B_n`, `B_0` | N *shape, *shape | the bases, and what all rows share |
| `customised_words` | `theta` | B E E | θ |
| `context_attention_pool` | `z` | B H | z |
| `value_matrix_words` | `w`, `U_1`, `U_2` | B E, B E R, B R E | w, U', U'' of each row's value |
| `own_low_rank` | `A`, `B` | r in, out r | A, B |
| `own_low_rank` | `dA`, `dB` | B r in, B out r | A_u - A, B_u - B |
"""

from attribune_lab.functional.basis import basis_coefficients, context_attention_pool, customised_words, mixed_bases
from attribune_lab.functional.convolution import averaged_windows, convolved_words
from attribune_lab.functional.hcsc import attribute_gate, frequency_gate, shared_vector
from attribune_lab.functional.iaa import attribute_interaction, bilinear_attention_pool
from attribune_lab.functional.own_low_rank import own_low_rank
from attribune_lab.functional.upnn import value_matrix_words

__all__ = [
    "attribute_gate",
    "attribute_interaction",
    "averaged_windows",
    "basis_coefficients",
    "bilinear_attention_pool",
    "context_attention_pool",
    "convolved_words",
    "customised_words",
    "frequency_gate",
    "mixed_bases",
    "own_low_rank",
    "shared_vector",
    "value_matrix_words",
]
