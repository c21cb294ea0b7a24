"""The lab beside the library: what reproduces the literature, on published data.

The library `attribune` conditions models on the metadata of your own texts, and never imports the lab. The lab comes in
by the entry points that any other package would use (docs/adding_a_method.md), and brings:

    functional  the equations of its methods as pure functions
    backbones   networks over word vectors, without pretraining
    methods     those of systems without pretraining, and baselines in a backbone
    training    what of training only these methods need
    history     the method that reads training rows in front of a text
    long_documents  recurrence or attention over the chunks of long texts
    automl      the best of many small networks over word vectors, by a search
    datasets    published data sets: cards, readers, preparation, statistics
    benchmark   experiments: many trainings, their results, tables and page
    verbs       `attribune benchmark`, and `attribune data list`, `info`, `prepare`, `stats`
"""
