"""Settings as people have them; the one line of the add-on is the last."""

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

ROBOTSTXT_OBEY = False
DOWNLOAD_TIMEOUT = 10
RETRY_TIMES = 4
RETRY_HTTP_CODES = [500, 502, 503, 504, 522, 524, 408, 429]

ITEM_PIPELINES = {"shop.pipelines.CountingPipeline": 300}
DOWNLOADER_MIDDLEWARES = {"shop.middlewares.StampMiddleware": 543}

ADDONS = {"retryscrape.addon.Retryscrape": 300}
