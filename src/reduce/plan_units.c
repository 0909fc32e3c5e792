#include "reduce/plan_units.h"

/* Copies units[count] of a list and checks that each is one of the site's and above the one before.
 */
static grail_status read_units(const char *source, const json_t *list, const site *s, int64_t count,
                               int64_t *units)
{
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is not an integer; give indices "
                             "of units from 0 to %lld",
                             source, s->name, (long long)i, (long long)s->units - 1);
        }
        units[i] = json_integer_value(value);
        if (units[i] < 0 || units[i] >= s->units) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is %lld, expected a unit from 0 "
                             "to %lld; grail inspect lists the units of a site",
                             source, s->name, (long long)i, (long long)units[i],
                             (long long)s->units - 1);
        }
        if (i > 0 && units[i] <= units[i - 1]) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is %lld after %lld; sort the "
                             "units, each once",
                             source, s->name, (long long)i, (long long)units[i],
                             (long long)units[i - 1]);
        }
    }
    return GRAIL_OK;
}

/* Every group of units must keep the same number. */
static grail_status check_groups(const char *source, const site *s, int64_t count,
                                 const int64_t *units)
{
    const int64_t in_group = s->units / s->groups;
    int64_t i = 0;
    for (int64_t g = 0; g < s->groups; g++) {
        const int64_t before = i;
        while (i < count && units[i] < (g + 1) * in_group) {
            i++;
        }
        if (i - before != count / s->groups) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\" keeps %lld of the units %lld to %lld, "
                             "expected %lld: as many of each of the %lld groups",
                             source, s->name, (long long)(i - before), (long long)(g * in_group),
                             (long long)((g + 1) * in_group - 1), (long long)(count / s->groups),
                             (long long)s->groups);
        }
    }
    return GRAIL_OK;
}

/* own->kept_units from a list of own->kept; NULL and JSON's null name none. */
static grail_status read_kept_units(const char *source, const json_t *list, const site *s,
                                    plan_site *own)
{
    if (list == NULL || json_is_null(list)) {
        return GRAIL_OK;
    }
    if (own->kept == 0 || json_array_size(list) != (size_t)own->kept) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s': \"kept_units\" names %zu units, but \"kept\" is %lld; %s",
                         source, s->name, json_array_size(list), (long long)own->kept,
                         own->kept == 0 ? "leave \"kept_units\" out to drop the sublayer"
                                        : "make them agree, or leave \"kept\" out");
    }
    if (own->selector->folds) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: site '%s': the selector '%s' merges units, but \"kept_units\" keeps some as "
            "they are; name a selector that keeps units",
            source, s->name, own->selector->name);
    }
    CHECK(memory_new(&own->kept_units, (size_t)own->kept, sizeof own->kept_units[0]));
    CHECK(read_units(source, list, s, own->kept, own->kept_units));
    return check_groups(source, s, own->kept, own->kept_units);
}

/* The width: "kept", or as many units as "kept_units" names. */
static grail_status read_width(const char *source, const json_t *entry, const json_t *list,
                               const site *s, int64_t *kept)
{
    const bool named = list != NULL && !json_is_null(list);
    if (named && (!json_is_array(list) || json_array_size(list) == 0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s': \"kept_units\" is not an array of units; give the "
                         "ascending indices of those that stay",
                         source, s->name);
    }
    if (!named && json_object_get(entry, "kept") == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' has no \"kept\"; give the number of units to keep", source,
                         s->name);
    }
    return json_get_integer(source, entry, "kept",
                            named ? (int64_t)json_array_size(list) : s->units, kept);
}

grail_status plan_site_read_units(const char *source, const json_t *entry, const site *s,
                                  plan_site *own)
{
    int64_t units = 0;
    const json_t *list = json_object_get(entry, "kept_units");
    CHECK(json_get_integer(source, entry, "units", s->units, &units));
    CHECK(read_width(source, entry, list, s, &own->kept));
    if (units != s->units) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' has %lld units in this model, but the plan says %lld",
                         source, s->name, (long long)s->units, (long long)units);
    }
    if (own->kept < 0 || own->kept > s->units) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: site '%s' keeps %lld units, expected 1 to %lld, or 0 to drop its whole sublayer",
            source, s->name, (long long)own->kept, (long long)s->units);
    }
    if (own->kept % s->groups != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' keeps %lld units, expected a multiple of its %lld groups",
                         source, s->name, (long long)own->kept, (long long)s->groups);
    }
    return read_kept_units(source, list, s, own);
}

grail_status plan_site_write_units(const plan_site *own, json_t *entry)
{
    CHECK(json_put(entry, "kept", json_integer(own->kept)));
    if (own->kept_units == NULL) {
        return GRAIL_OK;
    }
    json_t *list = json_array();
    CHECK(json_put(entry, "kept_units", list));
    for (int64_t i = 0; i < own->kept; i++) {
        CHECK(json_push(list, json_integer(own->kept_units[i])));
    }
    return GRAIL_OK;
}
