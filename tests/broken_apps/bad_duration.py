import headrace as hr

app = hr.App("shop")
app.source(
    "clicks",
    schema="id string, at timestamp",
    event_time="at",
    delay="5 secnds",
    idle="0 seconds",
    retention=7,
)
