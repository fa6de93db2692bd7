import headrace as hr

app = hr.App("payments")
app.stream("transactions", event_time="at", delay="5 seconds")
