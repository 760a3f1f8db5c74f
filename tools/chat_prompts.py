"""Eight chats' first messages: questions, and texts to be rewritten, whose answers repeat what was said."""

PROMPTS = [
    "What is the capital of France, and what is it known for?",
    "Give me five tips for sleeping better.",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    "Explain how a bill becomes a law, step by step, to a ten-year-old.",
    "Correct the spelling in this text and give me the whole text again: The old libary on Market Street was buildt in 1902 and has servd "
    "three generations of readers. Its reading room, with tall windows and oak tables, is the favorit place of many students, who come in "
    "the afternoons to study and to read the papers. Last year the city decidet to repair the roof and to open the garden to the publik.",
    "Rename the variable `total` to `sum_of_prices` in this function and show me the whole function:\n\ndef price(items, discount):\n"
    "    total = 0\n    for item in items:\n        total += item.price * item.count\n    if discount:\n        total -= total * discount\n"
    "    if total < 0:\n        total = 0\n    return round(total, 2)",
    "Make a bulleted list of the facts in this text, in its own words: The common swift spends most of its life in the air. It eats, drinks, "
    "mates and sleeps in flight, and lands only to nest. Young swifts stay in the air for two or three years before they breed. In August "
    "they leave for Africa, where they follow the rains and the insects that come with them, and return to the same nest in May.",
    "Write the JSON of three books, each with a title, an author, a year and a list of two topics.",
]
