import headrace as hr

app = hr.App("payments")
app.source("transactions", event_time="at", delay="5 seconds")
