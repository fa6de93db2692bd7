import headrace as hr

app = hr.App("shop")
clicks = app.source(
    "clicks",
    schema="id string, at timestamp",
    delay="5 seconds",
    idle="1 minute",
)
