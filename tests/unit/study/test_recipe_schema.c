/* recipe.schema.json and the parser know the same keys and names. */
#include "recipes.h"

#include "study/results/variant.h"

#include <grail/compress.h>

#include <string.h>

static json_t *schema;

static int open_schema(void **state)
{
    (void)state;
    schema = json_load_file(GRAIL_SOURCE_DIR "/src/study/recipe/recipe.schema.json",
                            JSON_REJECT_DUPLICATES, NULL);
    return schema == NULL ? -1 : 0;
}

static int close_schema(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

static const json_t *definition(const char *name)
{
    return json_object_get(json_object_get(schema, "$defs"), name);
}

/* Both name the same keys, and no others are allowed. */
static void assert_keys(const json_t *object, const char *const keys[])
{
    size_t count = 0;
    const json_t *properties = json_object_get(object, "properties");
    for (; keys[count] != NULL; count++) {
        if (json_object_get(properties, keys[count]) == NULL) {
            fail_msg("the schema lacks \"%s\"", keys[count]);
        }
    }
    assert_int_equal(json_object_size(properties), count);
    assert_true(json_is_false(json_object_get(object, "additionalProperties")));
}

static void the_keys_are_those_of_the_parser(void **state)
{
    (void)state;
    assert_keys(schema, sweep_recipe_keys);
    assert_keys(definition("grid"), sweep_grid_keys);
    assert_keys(definition("checkpoint"), sweep_checkpoint_keys);
    assert_keys(definition("images"), sweep_images_keys);
}

typedef const char *(*name_at)(int i);

static const char *variant_at(int i)
{
    return i < VARIANT_FORMS ? variant_form_name((variant)i) : NULL;
}

static const char *heal_at(int i)
{
    return i < HEAL_KINDS ? heal_kind_name((heal_kind)i) : NULL;
}

static void assert_names(const char *name, name_at at)
{
    const json_t *list = json_object_get(definition(name), "enum");
    size_t i = 0;
    for (; at((int)i) != NULL; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        assert_non_null(word);
        assert_string_equal(word, at((int)i));
    }
    assert_int_equal(json_array_size(list), i);
}

static void the_names_are_those_of_the_library(void **state)
{
    (void)state;
    assert_names("selector", grail_selector_at);
    assert_names("site", grail_site_kind_at);
    assert_names("preset", grail_image_preset_at);
    assert_names("compensate", variant_at);
    assert_names("heal", heal_at);
}

/* Every word that the schema allows for this key is read. */
static void assert_words_are_read(const json_t *rule, const char *key)
{
    size_t i = 0;
    const json_t *word = NULL;
    assert_true(json_array_size(json_object_get(rule, "enum")) > 0);
    json_array_foreach (json_object_get(rule, "enum"), i, word) {
        char text[500];
        snprintf(text, sizeof text, RECIPE(ONE, LISTS, ", \"%s\": \"%s\""), key,
                 json_string_value(word));
        sweep_recipe r = recipe_parsed(text);
        sweep_recipe_fini(&r);
    }
}

static void the_words_are_read(void **state)
{
    (void)state;
    const json_t *properties = json_object_get(schema, "properties");
    static const char *const keys[] = {"repeat", "select", "stream_score", "precision"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_words_are_read(json_object_get(properties, keys[i]), keys[i]);
    }
    assert_words_are_read(definition("loop"), "loop");
}

static void a_recipe_may_name_its_schema(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(RECIPE(ONE, LISTS, ", \"$schema\": \"recipe.schema.json\""));
    sweep_recipe_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_those_of_the_parser),
        cmocka_unit_test(the_names_are_those_of_the_library),
        cmocka_unit_test(the_words_are_read),
        cmocka_unit_test(a_recipe_may_name_its_schema),
    };
    return cmocka_run_group_tests(tests, open_schema, close_schema);
}
