import headrace as hr

app = hr.App("payments")
app.table("cards", hr.postgres("cards"), key="card")
app.table("limits", "public.limits", key="card")
