import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, __hr_offset bigint")
