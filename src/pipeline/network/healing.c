#include "pipeline/network/healing.h"

void healing_list_fini(healing_list *list)
{
    memory_free(list->made);
    *list = (healing_list){0};
}

grail_status healing_list_add(healing_list *list, const grail_healing *made)
{
    CHECK(memory_reserve(&list->made, (size_t)list->count + 1, sizeof list->made[0]));
    list->made[list->count++] = *made;
    list->seconds += made->seconds;
    return GRAIL_OK;
}

/* -- records ----------------------------------------------------------------------------------- */

static grail_status to_json(const grail_healing *h, json_t *object)
{
    CHECK(json_put(object, "block", h->block < 0 ? json_null() : json_integer(h->block)));
    CHECK(json_put(object, "last_block", h->block < 0 ? json_null() : json_integer(h->last_block)));
    CHECK(json_put(object, "blocks", json_integer(h->blocks)));
    CHECK(json_put(object, "steps", json_integer(h->steps)));
    CHECK(json_put(object, "most_steps", json_integer(h->most_steps)));
    CHECK(json_put(object, "best_step", json_integer(h->best_step)));
    CHECK(json_put(object, "held_loss_before", json_real_or_null(h->held_before)));
    CHECK(json_put(object, "held_loss_after", json_real_or_null(h->held_after)));
    CHECK(json_put(object, "seen_loss_before", json_real_or_null(h->seen_before)));
    CHECK(json_put(object, "seen_loss_after", json_real_or_null(h->seen_after)));
    if (h->streamed != 0) {
        CHECK(json_put(object, "streamed", json_true()));
    }
    if (h->region > 0) {
        CHECK(json_put(object, "region", json_integer(h->region)));
    }
    return json_put(object, "seconds", json_real(h->seconds));
}

grail_status healings_to_json(const healing_list *list, int block, bool every, json_t *object)
{
    json_t *array = NULL;
    for (int i = 0; i < list->count; i++) {
        if (!every && list->made[i].block != block) {
            continue;
        }
        if (array == NULL) {
            array = json_array();
            CHECK(json_put(object, "healed", array));
        }
        json_t *one = json_object();
        CHECK(json_push(array, one));
        CHECK(to_json(&list->made[i], one));
    }
    return GRAIL_OK;
}

static int64_t integer_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

grail_status healings_restore(const json_t *record, healing_list *list)
{
    const json_t *array = json_object_get(record, "healed");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *one = json_array_get(array, i);
        const json_t *block = json_object_get(one, "block");
        const json_t *last = json_object_get(one, "last_block");
        const grail_healing made = {
            .block = json_is_integer(block) ? (int)json_integer_value(block) : GRAPH_NONE,
            .last_block = json_is_integer(last) ? (int)json_integer_value(last) : GRAPH_NONE,
            .blocks = (int)integer_of(one, "blocks"),
            .steps = integer_of(one, "steps"),
            .most_steps = integer_of(one, "most_steps"),
            .best_step = integer_of(one, "best_step"),
            .held_before = json_real_or_nan(one, "held_loss_before"),
            .held_after = json_real_or_nan(one, "held_loss_after"),
            .seen_before = json_real_or_nan(one, "seen_loss_before"),
            .seen_after = json_real_or_nan(one, "seen_loss_after"),
            .seconds = json_number_value(json_object_get(one, "seconds")),
            .ended = 1,
            .region = (int)integer_of(one, "region"),
            .streamed = json_is_true(json_object_get(one, "streamed")),
        };
        CHECK(healing_list_add(list, &made));
    }
    return GRAIL_OK;
}
