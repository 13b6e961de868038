"""Memory's half of the archive process: search over the documents, by words and by vectors.

Everything here is a projection of the journal's state records of table ``doc`` (:mod:`chain.document`), and lives in
the archive's thread. Operations of the archive's link:

``search``  ``{"query", "k"?, "owner"?, "mode"?, "vector"?}``. ``owner``: the address that reads (it sees shared
            documents, its own and those of the places above it); None: the operator, who sees all. ``mode``: hybrid
            (default), vector or bm25. Answer ``{"results", "mode", "degraded", "pending", "embedder"}``:
            ``degraded`` says in words why a part is missing, else it is empty; ``pending`` counts documents whose
            vector is still to come. A result is ``{"id", "title", "text", "cut", "score", "parts", "seq", "owner",
            "scope", "time_us", "tags"}``, the best first; ``text`` is its first ``EXCERPT`` characters and ``cut``
            whether there are more; ``parts`` is ``{"bm25": {"rank", "score"}?, "vector": {"rank", "score"}?}``.
``read``    ``{"id", "owner"?}``: the result without score and parts, with the whole text. A document that is not
            there and one that may not be read give the same error.
``stats``   ``{}``: ``{"documents", "shared", "owners", "text_bytes", "embedder", "dimensions", "vectors", "pending",
            "kept", "index_bytes", "skipped", "fault", "rebuilt"}``.
``reindex`` ``{"fresh"?}``: throw the index away and build it again; ``fresh``: the kept vectors too. Answers at once
            with ``{"documents"}``.
``embedded`` ``{"id", "count", "dimensions", "data"}`` (little-endian float32, row by row) or ``{"id", "error"}``: the
            answer to a notice ``embed`` ``{"id", "provider", "model", "texts"}``, which is sent to the node when an
            embedder other than lexical is configured, and which the node forwards to the gateway's operation ``embed``
            as it is. What ``embed`` answers there can be sent back as it is, with the ``id`` added.

The embedder is given on the command line: ``--embedder lexical`` (default) or ``--embedder PROVIDER --embedding-model
MODEL [--embedding-dimensions N]``.
"""
