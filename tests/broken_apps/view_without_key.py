import headrace as hr

app = hr.App("shop")
app.source("pageviews", schema="url string, at timestamp", event_time="at")


@app.view
def views(pageviews):
    return pageviews.groupBy("url").count()
