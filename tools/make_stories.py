#!/usr/bin/env python3
"""Writes short children's stories from a small grammar, the same ones for the same seed.

A story is one paragraph; a blank line separates stories. What makes the text more than local
patterns: a name fixes a pronoun, a home, a favourite food and a parent's trade (facts of the world,
the same in every story); a colour, an object and a friend are introduced early and asked for later;
counts add up; an animal's sound, food and home, a trade's place and tool, and what weather does all
follow from tables.

usage: make_stories.py --seed N --bytes N [--output FILE]
"""

import argparse
import random
import sys

GIRLS = """Lily Mia Anna Rosa Nora Ella Ruby Ida Clara Zoe Tilda Maya Edith Fern Greta Hazel Iris
June Kate Lucy Nina Olive Pearl Sara Tess Una Vera Wilma Yara Dora""".split()
BOYS = """Tom Ben Max Sam Leo Tim Jack Finn Otto Hugo Adam Carl Dan Eric Felix Gus Henry Ivan Jon
Karl Luke Mark Ned Oscar Paul Ralph Simon Theo Victor Walter""".split()
PLACES = """a small village by the sea|an old mill near the river|a farmhouse under the hill
a tall house in the city|a hut at the edge of the woods|a red boat on the lake
a flat above the bakery|a white house on the cliff|a tent in the desert|a cabin in the mountains
a cottage behind the church|a castle with seven towers""".replace("\n", "|").split("|")
FOODS = """plums pancakes apples noodles cherries soup pears honey carrots muffins grapes bread
peaches cheese berries rice nuts pie melons beans""".split()
COLOURS = "red blue green yellow purple orange white black pink brown silver golden".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen""".split()
# object: (made of, what it does, how it breaks, what mends it)
OBJECTS = {
    "kite": ("paper", "flew high above the roofs", "tore", "tape"),
    "drum": ("wood", "made a deep boom", "cracked", "glue"),
    "boat": ("tin", "floated across the pond", "sprang a leak", "wax"),
    "scarf": ("wool", "kept the cold away", "came apart", "a needle and thread"),
    "lantern": ("glass", "shone in the dark", "went out", "a new candle"),
    "train": ("iron", "rolled along the floor", "lost a wheel", "a screw"),
    "doll": ("cloth", "sat on the shelf and smiled", "lost an arm", "a needle and thread"),
    "bell": ("brass", "rang loud and clear", "fell silent", "a piece of string"),
    "ball": ("rubber", "bounced over the fence", "went flat", "a pump"),
    "flute": ("silver wood", "played a sweet tune", "split", "glue"),
    "cart": ("oak", "carried stones and sticks", "lost a wheel", "a nail"),
    "hat": ("straw", "kept the sun away", "came apart", "a ribbon"),
    "clock": ("steel", "ticked all night", "stopped", "a drop of oil"),
    "basket": ("willow", "held everything at once", "broke", "a strip of bark"),
    "mirror": ("glass", "showed the whole room", "cracked", "a new frame"),
    "book": ("paper", "told of pirates and whales", "tore", "tape"),
}
# animal: (sound, food, home, young)
ANIMALS = {
    "duck": ("quacked", "seeds", "the pond", "duckling"),
    "cat": ("meowed", "fish", "the barn", "kitten"),
    "dog": ("barked", "bones", "the kennel", "puppy"),
    "sheep": ("bleated", "grass", "the meadow", "lamb"),
    "cow": ("mooed", "hay", "the stable", "calf"),
    "owl": ("hooted", "mice", "the hollow tree", "owlet"),
    "frog": ("croaked", "flies", "the marsh", "tadpole"),
    "horse": ("neighed", "oats", "the stable", "foal"),
    "pig": ("grunted", "corn", "the sty", "piglet"),
    "bear": ("growled", "honey", "the cave", "cub"),
    "snake": ("hissed", "eggs", "the dry grass", "hatchling"),
    "bee": ("buzzed", "nectar", "the hive", "larva"),
    "lion": ("roared", "meat", "the plain", "cub"),
    "goat": ("bleated", "leaves", "the rocks", "kid"),
    "hen": ("clucked", "grain", "the coop", "chick"),
    "wolf": ("howled", "meat", "the forest", "pup"),
    "mouse": ("squeaked", "crumbs", "the wall", "pup"),
    "swan": ("hissed", "water weeds", "the lake", "cygnet"),
}
# trade: (where, tool, what is done)
TRADES = {
    "baker": ("the bakery", "an oven", "made fresh bread"),
    "doctor": ("the clinic", "a warm lamp", "helped the sick"),
    "farmer": ("the field", "a plough", "grew wheat"),
    "teacher": ("the school", "a piece of chalk", "taught children to read"),
    "sailor": ("the harbour", "a long rope", "sailed to far islands"),
    "painter": ("the studio", "a soft brush", "painted tall ships"),
    "smith": ("the forge", "a heavy hammer", "bent hot iron"),
    "tailor": ("the shop", "a pair of scissors", "sewed coats"),
    "miner": ("the mine", "a pick", "dug for coal"),
    "gardener": ("the park", "a spade", "planted roses"),
    "fisher": ("the river", "a net", "caught trout"),
    "carpenter": ("the workshop", "a saw", "built tables"),
    "pilot": ("the airfield", "a map", "flew over the clouds"),
    "cook": ("the kitchen", "a big spoon", "boiled soup"),
    "singer": ("the stage", "a golden voice", "sang old songs"),
}
# weather: (what it was like, what it did, what to put on, what to drink afterwards)
WEATHER = {
    "rain": ("It rained all morning", "The path was full of puddles", "boots", "hot cocoa"),
    "snow": ("Snow fell all night", "The garden was white and still", "mittens", "warm milk"),
    "wind": ("A strong wind blew", "Leaves flew over the wall", "a thick coat", "ginger tea"),
    "sun": ("The sun was hot", "The stones were too warm to touch", "a straw hat", "cold water"),
    "fog": ("Thick fog lay on the ground", "Nobody could see the gate", "a bright vest", "hot soup"),
    "frost": ("There was frost on the windows", "The pond had turned to ice", "a woolly cap",
              "hot apple juice"),
}
SPOTS = """under the bed|behind the door|in the tall grass|on top of the cupboard|beside the well
inside an old shoe|near the garden gate|below the stairs|between two stones|at the foot of the oak
""".strip().replace("\n", "|").split("|")
FEELINGS = {"sad": "cried", "happy": "laughed", "angry": "stamped", "proud": "grinned",
            "scared": "shook", "tired": "yawned"}
SIZES = "tiny small little big huge".split()
FLOWERS = "roses tulips daisies lilies poppies violets".split()
PETS = "Pip Dot Rusty Snow Patch Bean Coco Tuft Moss Button".split()


def facts(name):
    """What the world holds to be true of a person; the multipliers only spread the names."""
    number = (GIRLS + BOYS).index(name)
    trade = list(TRADES)[(number * 11 + 4) % len(TRADES)]
    return {
        "home": PLACES[(number * 7 + 3) % len(PLACES)],
        "food": FOODS[(number * 13 + number // 20) % len(FOODS)],
        "parent": "mother" if (number // 2) % 2 else "father",
        "trade": trade,
    }


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def times(number, noun):
    return f"{NUMBERS[number]} {noun[:-1] if number == 1 and noun.endswith('s') else noun}"


class Story:
    """The people and things of one story, and its sentences so far."""

    def __init__(self, rng):
        self.rng = rng
        self.sentences = []
        girl, friend_girl = rng.random() < 0.5, rng.random() < 0.5
        self.words = {}
        self.person("", rng.choice(GIRLS if girl else BOYS), girl)
        others = [n for n in (GIRLS if friend_girl else BOYS) if n != self.words["name"]]
        self.person("friend_", rng.choice(others), friend_girl)
        thing, other_thing = rng.sample(list(OBJECTS), 2)
        colour, other_colour = rng.sample(COLOURS, 2)
        self.thing("", thing, colour)
        self.thing("friend_", other_thing, other_colour)
        self.open_ends = []

    def person(self, prefix, name, girl):
        pronouns = ("she", "her", "her", "girl") if girl else ("he", "him", "his", "boy")
        words = dict(zip(("he", "him", "his", "child"), pronouns), name=name, **facts(name))
        words["parent_he"] = "she" if words["parent"] == "mother" else "he"
        words["workplace"], words["tool"], words["work"] = TRADES[words["trade"]]
        self.words |= {prefix + key: value for key, value in words.items()}
        capitals = ("he", "his", "parent_he")
        self.words |= {f"{prefix}{key}".capitalize(): words[key].capitalize() for key in capitals}

    def thing(self, prefix, thing, colour):
        material, does, breaks, mends = OBJECTS[thing]
        self.words |= {f"{prefix}thing": thing, f"{prefix}colour": colour,
                       f"{prefix}material": material, f"{prefix}does": does,
                       f"{prefix}breaks": breaks, f"{prefix}mends": mends,
                       f"{prefix}a_colour": article(colour)}

    def say(self, *alternatives, **extra):
        sentence = self.rng.choice(alternatives).format(**self.words, **extra)
        self.sentences.append(sentence[0].upper() + sentence[1:])

    def maybe(self, chance, *alternatives, **extra):
        if self.rng.random() < chance:
            self.say(*alternatives, **extra)

    def later(self, *alternatives, **extra):
        """Something the ending may come back to."""
        self.open_ends.append((alternatives, extra))


# ---- beginning and end

def opening(story):
    story.say("Once there was a {child} named {name}.", "{name} was a {child} who lived in {home}.",
              "Long ago, a {child} called {name} lived in {home}.",
              "In {home} there lived a {child} called {name}.")
    story.maybe(0.55, "{name} loved {food} more than anything.", "{His} favourite food was {food}.",
                "Every day {he} ate {food}.")
    story.maybe(0.55, "{His} {parent} was a {trade} and {work}.",
                "{His} {parent} worked at {workplace} with {tool}.",
                "{His} {parent} was a {trade} who worked at {workplace}.")
    size = story.rng.choice(SIZES)
    story.say("{name} had {a_colour} {thing} made of {material}.",
              "One day {he} got {a_colour} {thing} from {his} {parent}.",
              "On {his} birthday {he} was given {size_a} {colour} {thing}.",
              "{He} owned {a_colour} {thing}, and it {does}.", size_a=article(size))


def meeting(story):
    story.say("{His} best friend was {friend_name}, who had {friend_a_colour} {friend_thing}.",
              "One day {he} met {friend_name}, a {friend_child} with {friend_a_colour} "
              "{friend_thing}.",
              "{friend_name} from {friend_home} came to visit and brought {friend_a_colour} "
              "{friend_thing}.")
    story.maybe(0.4, "{friend_name} loved {friend_food}, but {name} loved {food}.",
                "{Friend_his} {friend_parent} was a {friend_trade} and {friend_work}.",
                "\"My {friend_parent} works at {friend_workplace},\" said {friend_name}.")


def ending(story):
    story.rng.shuffle(story.open_ends)
    for alternatives, extra in story.open_ends[:2]:
        story.maybe(0.7, *alternatives, **extra)
    story.maybe(0.5, "At supper {name} ate {food}.", "{His} {parent} came home from {workplace}.",
                "{His} {parent} put down {tool} and gave {him} a hug.")
    story.say("That night {name} put the {colour} {thing} beside {his} bed.",
              "{name} slept well, with the {colour} {thing} in {his} arms.",
              "From that day on, {name} and {friend_name} were friends.",
              "{name} never forgot that day.",
              "And so {name} went home to {home}.")


# ---- episodes

def weather(story):
    was, did, wear, drink = WEATHER[story.rng.choice(list(WEATHER))]
    story.say("{was}.", "{was} that day.", was=was)
    story.maybe(0.7, "{did}.", did=did)
    story.say("So {name} put on {wear} and went outside.", "{He} wore {wear} because of it.",
              "\"Put on {wear},\" said {his} {parent}.", wear=wear)
    story.later("Back home {he} drank {drink}.", "{His} {parent} made {drink} for {him}.",
                drink=drink)


def lost(story):
    wrong, right = story.rng.sample(SPOTS, 2)
    story.say("One morning the {thing} was gone.", "But then {name} could not find the {thing}.",
              "Then {he} lost the {colour} {thing}.")
    story.say("{He} looked {wrong}, but it was not there.", "\"Is it {wrong}?\" {he} asked. It was "
              "not.", wrong=wrong)
    story.say("\"What colour is your {thing}?\" asked {friend_name}. \"It is {colour},\" said "
              "{name}.", "\"I lost my {thing}. It is {colour},\" {he} told {friend_name}.")
    story.say("{friend_name} found it {right}.", "Together they found it {right}.",
              "At last {he} saw something {colour} {right}.", right=right)
    story.maybe(0.6, "\"Thank you, {friend_name},\" said {name}.", "{name} was happy and laughed.")
    story.later("The {thing} was never lost {right} again.", right=right)


def sharing(story):
    total = story.rng.randint(3, 12)
    given = story.rng.randint(1, total - 1)
    item = story.rng.choice(["{food}", "cookies", "sweets", "marbles", "shells", "buttons"])
    item = item.format(**story.words)
    if item in ("honey", "soup", "bread", "cheese", "rice", "pie"):
        item = "cookies"
    words = {"total": times(total, item), "given": NUMBERS[given],
             "left": NUMBERS[total - given], "item": item}
    story.say("{name} had {total} in {his} pocket.", "{His} {parent} gave {him} {total}.", **words)
    story.say("{He} gave {given} to {friend_name}.", "\"Take {given},\" {he} said to "
              "{friend_name}.", **words)
    story.say("Now {name} had {left} and {friend_name} had {given}.",
              "So {left} were left for {name}." if total - given > 1 else
              "So {left} was left for {name}.",
              "\"You still have {left},\" said {friend_name}.", **words)
    story.later("{name} still had {left} of the {item}.", **words)


def broken(story):
    story.say("Then the {thing} {breaks}.", "But the {colour} {thing} {breaks}.",
              "While they played, the {thing} {breaks}.")
    story.say("{name} was sad and cried.", "\"Oh no, my {thing}!\" cried {name}.",
              "{He} was sad, because it was {his} only {thing}.")
    helper = story.rng.choice(["{name} and {his} {parent}", "{friend_name}"])
    helper = helper.format(**story.words)
    story.say("{helper} mended it with {mends}.", "{helper} fetched {mends} and made it whole "
              "again.", "\"We need {mends},\" said {friend_name}. Soon it was mended.",
              helper=helper)
    story.maybe(0.6, "After that the {thing} {does} again.", "Soon it {does} as before.")
    story.later("The {thing} was as good as new.", "No one could see where the {thing} {breaks}.")


def animal(story):
    kind = story.rng.choice(list(ANIMALS))
    sound, food, home, young = ANIMALS[kind]
    words = {"kind": kind, "a_kind": article(kind), "sound": sound, "eats": food, "lair": home,
             "young": young, "pet": story.rng.choice(PETS)}
    story.say("On the way they met {a_kind}.", "Suddenly {a_kind} stood in front of {name}.",
              "{name} heard a noise. It was {a_kind}.", **words)
    story.say("The {kind} {sound}.", "It {sound} three times.", "It was hungry and {sound}.",
              **words)
    story.say("{name} gave it {eats}, and it ate them all." if food.endswith("s") else
              "{name} gave it {eats}, and it ate it all.",
              "\"It wants {eats},\" said {friend_name}.", **words)
    if story.rng.random() < 0.5:
        story.say("Its {young} was called {pet}.", "They named the {young} {pet}.", **words)
        story.later("Little {pet} the {young} waved goodbye.",
                    "They often thought of {pet} the {young}.", **words)
    story.say("Then the {kind} went back to {lair}.", "Then it ran home to {lair}.", **words)


def trade(story):
    story.say("They walked to {workplace} to see {his} {parent}.",
              "{name} took {friend_name} to {workplace}.")
    story.say("There {his} {parent} showed them {tool}.", "{His} {parent} held {tool} in one hand.",
              "\"This is {tool},\" said {his} {parent}.")
    story.maybe(0.6, "\"I want to be a {trade} too,\" said {name}.",
                "\"What does a {trade} do?\" asked {friend_name}. {Parent_he} {work}, said {name}.")
    story.later("One day {name} became a {trade} and {work}.")


def swap(story):
    story.say("\"Shall we swap?\" asked {friend_name}.", "{friend_name} wanted to swap toys.")
    story.say("{name} gave away the {colour} {thing} and got the {friend_colour} {friend_thing}.",
              "So {friend_name} took the {colour} {thing}, and {name} took the {friend_colour} "
              "{friend_thing}.")
    story.say("The {friend_thing} {friend_does}.", "The {friend_thing} was made of "
              "{friend_material}.")
    story.say("In the evening they swapped back.", "But soon {name} missed the {colour} {thing}, "
              "so they swapped back.")


def race(story):
    first, second = story.rng.sample(("name", "friend_name"), 2)
    words = {"winner": story.words[first], "loser": story.words[second],
             "reach": story.rng.choice(["the old bridge", "the well", "the big oak", "the gate"])}
    story.say("They ran a race to {reach}.", "\"Who is first at {reach}?\" said {friend_name}.",
              **words)
    story.say("{loser} fell over a root, so {winner} was faster.",
              "{winner} ran like the wind and left {loser} behind.", **words)
    story.say("{winner} won and {loser} came second.", "\"You won, {winner},\" said {loser}.",
              **words)
    story.later("{loser} wanted to race {winner} again the next day.",
                "Everyone at {reach} cheered for {winner}.", **words)


def garden(story):
    flower = story.rng.choice(FLOWERS)
    first, second = story.rng.randint(1, 8), story.rng.randint(1, 8)
    words = {"flower": flower, "first": NUMBERS[first], "second": NUMBERS[second],
             "sum": times(first + second, flower)}
    story.say("In spring {name} planted {flower}.", "They planted {flower} by the wall.", **words)
    story.say("{name} counted {first} on the left and {second} on the right.",
              "{first} stood in front and {second} behind.", **words)
    story.say("That made {sum}.", "\"We have {sum},\" said {friend_name}.", **words)
    story.later("The {flower} bloomed all summer.", **words)


def box(story):
    colour = story.rng.choice([c for c in COLOURS if c != story.words["colour"]])
    spot = story.rng.choice(SPOTS)
    words = {"key": colour, "a_key": article(colour), "spot": spot}
    story.say("{name} found a locked box {spot}.", "There was a box {spot}, and it had {a_key} "
              "lock.", **words)
    story.say("It needed {a_key} key.", "\"We need {a_key} key,\" said {friend_name}.", **words)
    story.maybe(0.6, "They tried the {colour} key, but it did not fit.", **words)
    story.say("The {key} key opened it.", "Then {friend_name} brought the {key} key, and the box "
              "opened.", **words)
    story.say("Inside lay {friend_a_colour} {friend_thing}." if story.rng.random() < 0.3 else
              "Inside was a letter from {friend_home}.", "Inside there was nothing but dust.",
              **words)
    story.later("{name} kept the {key} key in a drawer.", **words)


def feeling(story):
    mood = story.rng.choice(list(FEELINGS))
    who = story.rng.choice(["name", "friend_name"])
    words = {"mood": mood, "did": FEELINGS[mood], "who": story.words[who],
             "they": story.words["he" if who == "name" else "friend_he"]}
    story.say("{who} was {mood}, so {they} {did}.", "{who} {did}, because {they} was {mood}.",
              **words)
    story.later("{who} was not {mood} any more." if mood in ("sad", "angry", "scared", "tired")
                else "{who} was still {mood}.", **words)


EPISODES = (weather, lost, sharing, broken, animal, trade, swap, race, garden, box, feeling)


def make_story(rng):
    story = Story(rng)
    opening(story)
    meeting(story)
    for episode in rng.sample(EPISODES, rng.choice((1, 2, 2, 3))):
        episode(story)
    ending(story)
    return " ".join(story.sentences)


def make_stories(seed, size):
    """Stories separated by blank lines, at least `size` bytes."""
    rng = random.Random(seed)
    parts, length = [], 0
    while length < size:
        parts.append(make_story(rng))
        length += len(parts[-1]) + 2
    return "\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--output", type=argparse.FileType("w", encoding="utf-8"),
                        default=sys.stdout)
    options = parser.parse_args()
    options.output.write(make_stories(options.seed, options.bytes))


if __name__ == "__main__":
    main()
