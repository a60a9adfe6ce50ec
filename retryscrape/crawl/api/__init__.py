"""The scraping-API rung: what no other rung gets is bought, exactly once.

``door`` checks the declaration, ``rung`` is what the crawl knows, ``orders`` the ledger's
side, ``buying`` and ``batching`` place orders, ``reading`` fetches results, ``receiver``
takes events in, ``client`` talks HTTP. What answers mean is ``policy.api_answers``'.
"""
