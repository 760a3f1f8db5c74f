"""Draws answers that are held to JSON schemas, and lets the library `jsonschema` judge each: none may be invalid.

Usage: schema_check.py [COUNT [SEED]]   (from the repository's root; needs build/release/tools/reference/schema_walk)
       schema_check.py --answers COUNT [--schemas N] [--model M] [--draft D]   (needs .../schema_answers)

The schemas are those of the JSON Schema Test Suite (drafts 7 and 2020-12, from the source package of PyPI's jsonschema,
unpacked in build/reference-schema_check), and COUNT generated ones. A schema may be refused, by name; what is taken holds.
With --answers a model gives COUNT answers in turn, at T = 0, 0.8 and 1.5, to N (200) of the suite's schemas that are taken.
"""
import argparse, collections, itertools, json, pathlib, random, subprocess, sys, tarfile
import jsonschema

FOLDER = pathlib.Path("build/reference-schema_check")
PROGRAM = ["build/release/tools/reference/schema_walk", "models/demo/target/tokenizer.json"]
FORMATS = ["date", "date-time", "email", "uuid", "ipv4", "uri", "time", "hostname"]
PATTERNS = ["^a+$", "b", "^[A-Z]{2}[0-9]?$", "^(x|yz)*$", r"\d+", "[^a]", r"^\w\s?$", "^$", "a.c", r"\bword\b", "^a|b$",
            "(?i)abc", "(?=x)y"]
VALUES = ["a", 'b"c', "é", 1, 2.5, None, True, {"x": 1}, [1, 2]]


def suite():
    folder = FOLDER / "package"
    if not folder.exists():
        package = pathlib.Path(__file__).with_suffix(".txt").read_text().strip()
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "jsonschema",
                        "--dest", str(FOLDER), package], check=True)
        with tarfile.open(next(FOLDER.glob("jsonschema-*.tar.gz"))) as tar:
            tar.extractall(folder, members=[m for m in tar if "/json/tests/draft" in m.name], filter="data")
    schemas = {}
    for draft in ("draft2020-12", "draft7"):
        for path in sorted(folder.glob(f"*/json/tests/{draft}/*.json")):
            for group in json.loads(path.read_text()):
                if isinstance(group["schema"], dict):
                    schemas[json.dumps(group["schema"])] = None
    return list(schemas)


def some(chance, p, **members):
    """Each member with the probability p."""
    return {name: make() for name, make in members.items() if chance.random() < p}


def number(chance, kind):
    half = 0.5 if kind == "number" else 0
    return {"type": kind,
            **some(chance, .5, minimum=lambda: chance.choice([-10, 0, 1, 5, -1 - half, 100])),
            **some(chance, .3, maximum=lambda: chance.choice([101, 200, 120 + half])),
            **some(chance, .2, exclusiveMaximum=lambda: chance.choice([101, 150])),
            **some(chance, .1, exclusiveMinimum=lambda: chance.choice([0, -5, 3])),
            **(some(chance, .15, multipleOf=lambda: chance.choice([2, 5, 10])) if kind == "integer" else {})}


def object_(chance, depth):
    properties = {f"k{i}": schema(chance, depth - 1) for i in range(chance.randint(0, 4))}
    required = [name for name in [*properties, "other"] if chance.random() < (.1 if name == "other" else .5)]
    return {"type": "object", "title": "T", "properties": properties, **({"required": required} if required else {}),
            **some(chance, .3, additionalProperties=lambda: chance.choice([False, True, {"type": "integer"}])),
            **some(chance, .1, patternProperties=lambda: {"^x[0-9]+$": schema(chance, 0)}),
            **some(chance, .1, minProperties=lambda: 1, maxProperties=lambda: 3,
                   propertyNames=lambda: {"pattern": "^[a-z0-9]+$"})}


def schema(chance, depth):
    kinds = ["string", "integer", "number", "boolean", "enum", "const", "pattern"]
    nested = ["null", "array", "object", "object", "anyOf", "types", "format"]
    kind = chance.choice(kinds + (nested if depth > 0 else []))
    if kind == "string":
        return {"type": kind, **some(chance, .4, minLength=lambda: chance.randint(0, 3), maxLength=lambda: chance.randint(3, 9))}
    if kind in ("integer", "number"):
        return number(chance, kind)
    if kind == "enum":
        return {"enum": chance.sample(VALUES, chance.randint(1, 4))}
    if kind == "const":
        return {"const": chance.choice(["v", 3, None, {"a": [1]}])}
    if kind == "array":
        return {"type": kind, "items": schema(chance, depth - 1),
                **some(chance, .4, minItems=lambda: chance.randint(0, 2), maxItems=lambda: chance.randint(2, 4)),
                **some(chance, .2, prefixItems=lambda: [schema(chance, depth - 1) for _ in range(2)])}
    if kind == "object":
        return object_(chance, depth)
    if kind == "anyOf":
        return {"anyOf": [schema(chance, depth - 1) for _ in range(chance.randint(1, 3))]}
    if kind == "types":
        types = ["string", "integer", "null", "boolean", "array", "object"]
        return {"type": chance.sample(types, 2), **some(chance, .5, minLength=lambda: 2, maxItems=lambda: 1, minimum=lambda: 5)}
    if kind == "format":
        return {"type": "string", "format": chance.choice(FORMATS)}
    return {"type": "string", "pattern": chance.choice(PATTERNS)} if kind == "pattern" else {"type": kind}


def generated(seed):
    chance = random.Random(seed)
    made = schema(chance, 3)
    if chance.random() < .2:  # a list of them
        node = {"type": "object", "properties": {"v": schema(chance, 1), "next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
                "required": ["v"]}
        made = {"$defs": {"N": node}, "type": "object", "properties": {"n": {"$ref": "#/$defs/N"}, "s": made}, "required": ["n"]}
    return json.dumps(made)


def wrong(schema, text):
    """What is wrong with a text; None: nothing."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    error = next(kind(schema).iter_errors(value), None)
    return error and error.message


def check(title, schemas, program=PROGRAM):
    out = subprocess.run(program, input="\n".join(schemas) + "\n", stdout=subprocess.PIPE, text=True, timeout=36000)
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    if len(answers) != len(schemas):
        sys.exit(f"{program[0]} ended at {schemas[len(answers)]}")
    counts, refused = collections.Counter(), collections.Counter()
    for schema, answer in zip(schemas, answers):
        if "error" in answer:
            refused[answer["error"][:100]] += 1
            continue
        counts["taken"] += 1
        counts["ended in nothing"] += answer.get("dead_ends", 0)
        counts["cut"] += answer.get("cut", 0)
        for text in answer["texts"]:
            error = wrong(json.loads(schema), text)
            counts["invalid" if error else "valid"] += 1
            if error:
                print(f"--- {schema}\n  {text!r}: {error}")
    print(f"{title}: {len(schemas)} schemas, {sum(refused.values())} refused; " + ", ".join(f"{n} {k}" for k, n in counts.items()))
    if "-v" in sys.argv:
        print("".join(f"  {n} {error}\n" for error, n in refused.most_common()))
    return counts["invalid"] + counts["ended in nothing"]


def check_answers(options):
    """Several answers to each schema that is taken, as many to each."""
    def taken(schema):
        out = subprocess.run(PROGRAM, input=schema + "\n", stdout=subprocess.PIPE, text=True, check=True)
        return "error" not in json.loads(out.stdout)
    schemas = list(itertools.islice(filter(taken, suite()), options.schemas))
    each = -(-options.answers // len(schemas))
    program = [PROGRAM[0].replace("schema_walk", "schema_answers"), options.model, options.draft, str(each)]
    return check(f"{each} answers of {options.model} to each", schemas, program)


def main():
    if "--answers" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--answers", type=int)
        parser.add_argument("--schemas", type=int, default=200)
        parser.add_argument("--model", default="demo")
        parser.add_argument("--draft", default="suffix")
        failed = check_answers(parser.parse_args())
        sys.exit(f"{failed} answers are not held to their schemas" if failed else 0)
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    count, seed = (numbers + [1000, 1][len(numbers):])[:2]
    failed = check("JSON Schema Test Suite", suite())
    failed += check(f"generated, seeds from {seed}", [generated(seed + i) for i in range(count)])
    sys.exit(f"{failed} answers are not held to their schemas" if failed else 0)


main()
