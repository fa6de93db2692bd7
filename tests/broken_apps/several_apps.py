import headrace as hr

payments = hr.App("payments")
fraud = hr.App("fraud")
