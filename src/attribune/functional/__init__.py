"""The mathematics of the methods: pure functions with the papers' symbols, no state; one file a paper.

Shapes are types, such as ``Float[Tensor, "B T H"]``: B rows, T tokens, H hidden size, A bottleneck, Z attribute vector
size, M attributes, MZ the sizes of all their vectors together, O hypercomplex dimensions, U distinct values, L labels,
P = H / O² the length of ``s_o``. The test suite checks them in every call; a program pays nothing for them.

One rule of orientation: a matrix has the shape with which it stands in the formula of the docstring. Behind what it
maps, as in ``h W``, it is (in, out); in front of it, as in ``G z``, it is (out, in). The formulas have the papers'
order, but for the adapters: these papers write ``W h`` for weights of shape (in, out), which is ``h W``. Parameters of
modules have the shapes of the functions that they go into.

Attribute vectors come in two forms: ``a`` (or ``c``) are those of each row side by side, zero for a missing value;
``z`` are those of the distinct values of the batch, and ``membership[b, u]`` says how often row b has value u.

The parameters and their names in the papers:

| function | parameter | shape | in the paper |
|---|---|---|---|
| `adapter`, `bottleneck` | `W_down`, `b_down` | H A, A | FFNet_down, the down-projection |
| `adapter`, `bottleneck` | `W_up`, `b_up` | A H, H | FFNet_up, the up-projection |
| `batch_normalization` | `mean`, `variance`, `gain`, `bias` | A, A, A, A | those of the batch normalization |
| `grouped_bottleneck` | `W_down`, `b_down` | M H A, M A | FFNet_down of each of M adapters |
| `grouped_bottleneck` | `W_up`, `b_up` | M A H, M H | FFNet_up of each |
| `attribute_adapter` | `W`, `b` | B H A, B A | W_{z_j}, b_{z_j} |
| `attribute_bias` | `G` | A Z | g_bias |
| `attribute_bias` | `c` | A | c_bias |
| `attribute_weight` | `C` | H A | C_weight |
| `attribute_dropout` | `draw` | B M | a random number from 0 to 1 |
| `phm_weight` | `sigma` | O A Z | σ_o |
| `phm_weight` | `s` | O P | s_o |
| `phm_weight`, `phm_full_weight` | `A_o` | O O O | A_o |
| `phm_factors` | `sigma`, `s`, `A_o` | S O A Z, S O P, S O O O | σ_o, s_o, A_o of all S sites |
| `low_rank_weight` | `sigma`, `s` | A Z, H | σ, s |
| `phm_full_weight` | `sigma` | O A P Z | the full map in place of eq. 7 |
| `full_weight` | `sigma` | H A Z | the linear projection in place of eq. 9 |
| `attention_pool` | `W_h`, `v`, `b` | A H, A, A | W_H, v, b |
| `attention_pool` | `W` | A MZ | W_U and W_P side by side |
| `chunk_importance_logits` | `Q`, `b_q` | NL MZ, NL | the map of the attributes to the chunk |
| `chunk_importance_logits` | `W`, `b` | H L, L | W, b of the classifier |
| `chunk_importance_weight` | `Q`, `b_q` | NK MZ, NK | the map of the attributes to the chunk |
| `chunk_importance_weight` | `W` | inputs features | W |
| `personal_attention_pool` | `W`, `b`, `v` | B H A, B A, A | I ⊙ W_h, b, v |
| `concatenate` | `W` | H H+MZ | the fusion of BERT Concat |
| `multi_attribute_attention` | `W_q`, `W_k`, `W_v` | M H D, M H D, M H D | W_{q,m}, W_{k,m}, W_{v,m} |
| `multi_attribute_attention` | `W_o`, `e` | M*D H, B M D | W_o, E_{A,m} |
| `multi_attribute_layer` | `W_1`, `b_1`, `W_2`, `b_2` | H F, F, F H, H | the feed-forward network |
| `multi_attribute_layer` | `gain_1`, `bias_1`, `gain_2`, `bias_2` | H, H, H, H | the normalization layers |
| `personalised_norm` | `g`, `b` | B H, B H | linear_λ([e^u; e^p]), linear_β([e^u; e^p]) |
| `personalised_norm` | `bias` | H | β |
| `joint_loss` | `loss` | K | the loss of each classifier |
| `personalised_low_rank` | `A`, `B` | r in, out r | A, B |
| `personalised_low_rank` | `P` | r MZ | P_j side by side |
| `modulated_low_rank` | `A`, `B` | r in, out r | A, B |
| `modulated_low_rank` | `M`, `P` | r MZ, r MZ | M_j side by side, P_j side by side |
| `soft_prefix` | `P_0`, `Q` | k E, k E MZ | the soft prompt, the map of the vector to it |
| `cut_points`, `ordinal_log_probabilities` | `first` | 1 | θ_1 |
| `described_vectors` | `x` | U X | φ_v |
| `described_vectors` | `W_1`, `b_1`, `W_2` | X D, D, D Z | the two layers of f |
| `preference_log_probability`, `preference_or_tie_logits` | `r_1`, `r_2` | B, B | log π_1, log π_2 |
| `preference_or_tie_logits` | `log_nu` | 1 | log ν |
| `cosine_similarity`, `multiple_negatives_loss` | `u`, `v` | B H, B H | u, v; h_x, h_y |
| `multiple_negatives_loss` | `texts` | B | the second text of each row, by its number |
| `triplet_margin_loss` | `c_p`, `c_n` | B, B | cosines in place of distances |
| `value_log_evidence`, `value_mode_step` | `K`, `W`, `a` | V n n, V n n, V n | covariance, Hessian, coefficients |
| `value_covariance_after` | `Sigma`, `G` | D D, D K | the covariance before, a root of the rows' information |
| `prediction_gain` | `Sigma`, `G`, `M` | D D, n D K, D D | the covariance, roots of the texts' information, its mean |
| `value_log_evidence` | `loss` | V | negative log-likelihood of a value's rows |
| `value_mode_step` | `g` | V n | its gradient in the logits |
| `ordinal_log_probabilities` | `score`, `b` | B, B | the linear predictor, the shift of the cut points |

Parameters of modules that have other names: of `AttributeAdapter`, ``W_down`` is C_weight and ``b_down`` c_bias; of
personalised norms and biases, ``L`` (features, MZ) is linear_λ or linear_β. Recurrent layers
and adapters from factors are described with `LSTMWeights`, `RowLSTMWeights` and `FactoredAdapter`.
"""

from attribune.functional.adapter import (
    Activation,
    adapter,
    batch_moments,
    batch_normalization,
    bottleneck,
    grouped_bottleneck,
    parallel_adapter,
)
from attribune.functional.chim import chunk_importance_logits, chunk_importance_weight, personal_attention_pool
from attribune.functional.descriptions import described_vectors
from attribune.functional.e2ln import layer_norm_pool, personalised_norm, shared_summaries, structure_enhanced
from attribune.functional.factored import factored_adapters, phm_factors
from attribune.functional.huapa import joint_loss
from attribune.functional.injector import (
    attribute_adapter,
    attribute_bias,
    attribute_dropout,
    attribute_weight,
    full_weight,
    low_rank_weight,
    phm_full_weight,
    phm_weight,
    projected_adapter,
)
from attribune.functional.ma_bert import concatenate, multi_attribute_attention, multi_attribute_layer
from attribune.functional.modulated import modulated_low_rank
from attribune.functional.ordinal import cut_points, ordinal_log_probabilities
from attribune.functional.plora import personalised_low_rank
from attribune.functional.pooling import attention_pool, first_token, last_token, max_tokens, mean_tokens
from attribune.functional.preference import preference_log_probability, preference_or_tie_logits
from attribune.functional.prefix import soft_prefix
from attribune.functional.recurrent import bilstm, lstm, lstm_by_row
from attribune.functional.similarity import cosine_similarity, multiple_negatives_loss, triplet_margin_loss
from attribune.functional.tokens import control_tokens
from attribune.functional.value_prior import (
    prediction_gain,
    value_covariance_after,
    value_log_evidence,
    value_mode_step,
)

__all__ = [
    "Activation",
    "adapter",
    "attention_pool",
    "attribute_adapter",
    "attribute_bias",
    "attribute_dropout",
    "attribute_weight",
    "batch_moments",
    "batch_normalization",
    "bilstm",
    "bottleneck",
    "chunk_importance_logits",
    "chunk_importance_weight",
    "concatenate",
    "control_tokens",
    "cosine_similarity",
    "cut_points",
    "described_vectors",
    "factored_adapters",
    "first_token",
    "full_weight",
    "grouped_bottleneck",
    "joint_loss",
    "last_token",
    "layer_norm_pool",
    "low_rank_weight",
    "lstm",
    "lstm_by_row",
    "max_tokens",
    "mean_tokens",
    "modulated_low_rank",
    "multi_attribute_attention",
    "multi_attribute_layer",
    "multiple_negatives_loss",
    "ordinal_log_probabilities",
    "parallel_adapter",
    "personal_attention_pool",
    "personalised_low_rank",
    "personalised_norm",
    "phm_factors",
    "phm_full_weight",
    "phm_weight",
    "prediction_gain",
    "preference_log_probability",
    "preference_or_tie_logits",
    "projected_adapter",
    "shared_summaries",
    "soft_prefix",
    "structure_enhanced",
    "triplet_margin_loss",
    "value_covariance_after",
    "value_log_evidence",
    "value_mode_step",
]
