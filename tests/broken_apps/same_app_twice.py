import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")
app = hr.App("payments")
