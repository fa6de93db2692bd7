import headrace as hr

app = hr.App("shop")
app.source("clicks", schema="id string, at bigint", event_time="at", delay="5 seconds")
