#!/usr/bin/env python3
"""20 schemas as programs that want JSON have them, by what they describe. Run: prints each with an answer, for tests/constraints/form_figures."""
import json

TEXT, INTEGER, NUMBER, FLAG = {"type": "string", "maxLength": 24}, {"type": "integer", "minimum": 0, "maximum": 9999}, \
    {"type": "number"}, {"type": "boolean"}
DAY = {"type": "string", "format": "date"}


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def one_of(*values):
    return {"enum": list(values)}


def some(items, most=3):
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


PLACE = record(street=TEXT, city=TEXT, postal_code=TEXT, country=TEXT)
SCHEMAS = {
    "a person": record(first_name=TEXT, last_name=TEXT, age=INTEGER, email=TEXT),
    "an address": PLACE,
    "a product": record(product_name=TEXT, price=NUMBER, currency=one_of("EUR", "USD"), in_stock=FLAG),
    "an order": record(order_id=INTEGER, customer=record(name=TEXT, shipping_address=PLACE), paid=FLAG),
    "an invoice": record(invoice_number=INTEGER, issued_on=DAY, lines=some(record(description=TEXT, quantity=INTEGER, unit_price=NUMBER), 2)),
    "the weather": record(location=TEXT, temperature_celsius=NUMBER, conditions=one_of("sunny", "cloudy", "rainy"), wind_speed=NUMBER),
    "a sentiment": record(sentiment=one_of("positive", "negative", "neutral"), confidence=NUMBER, explanation=TEXT),
    "a call of a function": record(function_name=one_of("get_weather", "send_email"), arguments=record(recipient=TEXT, subject_line=TEXT)),
    "a calendar event": record(title=TEXT, start_date=DAY, end_date=DAY, attendees=some(TEXT), is_recurring=FLAG),
    "a film": record(title=TEXT, release_year=INTEGER, director=TEXT, genres=some(one_of("drama", "comedy", "horror"))),
    "a recipe": record(recipe_name=TEXT, servings=INTEGER, ingredients=some(record(ingredient=TEXT, amount=TEXT)), vegetarian=FLAG),
    "a job": record(company=TEXT, position=TEXT, salary_range=record(minimum=INTEGER, maximum=INTEGER), remote=FLAG),
    "a bug report": record(summary=TEXT, severity=one_of("low", "medium", "high", "critical"), steps_to_reproduce=some(TEXT), assignee=TEXT),
    "a patient": record(patient_id=INTEGER, blood_type=one_of("A", "B", "AB", "O"), allergies=some(TEXT), date_of_birth=DAY),
    "a flight": record(flight_number=TEXT, departure_airport=TEXT, arrival_airport=TEXT, duration_minutes=INTEGER),
    "a review": record(reviewer=TEXT, rating=one_of(1, 2, 3, 4, 5), review_text=TEXT, verified_purchase=FLAG),
    "a configuration": record(server=record(host=TEXT, port=INTEGER), database=record(connection_string=TEXT, pool_size=INTEGER), debug=FLAG),
    "a plan": record(goal=TEXT, steps=some(record(step_number=INTEGER, action=TEXT, depends_on_previous=FLAG))),
    "entities": record(entities=some(record(entity_text=TEXT, entity_type=one_of("person", "organisation", "location")))),
    "an answer": record(reasoning=TEXT, final_answer=TEXT, sources_used=INTEGER, needs_follow_up=FLAG),
}


def example(schema):
    """An answer under a schema of those above."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date":
        return "2026-11-29"
    return {
        "object": lambda: {name: example(of) for name, of in schema["properties"].items()},
        "array": lambda: [example(schema["items"])] * schema["maxItems"],
        "string": lambda: "Some usual words, and 12",
        "integer": lambda: 1234,
        "number": lambda: 12.75,
        "boolean": lambda: True,
    }[schema["type"]]()


if __name__ == "__main__":
    for schema in SCHEMAS.values():
        print(json.dumps({"schema": schema, "answer": json.dumps(example(schema))}))
