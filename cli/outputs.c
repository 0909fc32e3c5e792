#include "outputs.h"

#include "print.h"
#include "shared_options.h"

#include <math.h>
#include <stdlib.h>

grail_output_comparison *outputs_room(const grail_model *model, int64_t *count)
{
    grail_model_facts facts = {0};
    if (grail_model_describe(model, &facts) != GRAIL_OK) {
        return NULL;
    }
    grail_output_comparison *room = calloc((size_t)facts.outputs, sizeof *room);
    *count = room == NULL ? 0 : facts.outputs;
    return room;
}

const char *outputs_name(const char *name)
{
    return name == NULL ? "output" : name;
}

void outputs_print(int64_t count, const grail_output_comparison *of)
{
    int64_t worst = 0;
    for (int64_t i = 0; i < count; i++) {
        const grail_output_comparison *o = &of[i];
        worst = o->relative_error > of[worst].relative_error ? i : worst;
        print_out("  %s: relative error %.4g, max abs difference %.3g", outputs_name(o->name),
                  o->relative_error, o->max_abs);
        if (!isnan(o->mean_kl)) {
            print_out(", KL %.4g", o->mean_kl);
        }
        print_out("%s\n", o->is_zero != 0 ? " (0 everywhere in the dense network)" : "");
    }
    if (count > 1) {
        print_out("worst output: %s, relative error %.4g\n", outputs_name(of[worst].name),
                  of[worst].relative_error);
    }
}

json_t *outputs_json(int64_t count, const grail_output_comparison *of)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) {
        json_array_append_new(list, json_of("name", J(of[i].name), "relative_error",
                                            J(of[i].relative_error), "max_abs", J(of[i].max_abs),
                                            "mean_kl", J(of[i].mean_kl), "is_zero",
                                            J((bool)of[i].is_zero), NULL));
    }
    return list;
}
