#include "input_options.h"

#include "print.h"

bool list_given(grail_option_at at)
{
    int i = 0;
    while (at(i) != NULL && (at(i)->name == NULL || !option_given(at(i)->name))) {
        i++;
    }
    return at(i) != NULL;
}

int check_kind_options(const command *c, const char *path, bool reads_images, kind_options of_text,
                       kind_options of_images)
{
    const kind_options *other = reads_images ? &of_text : &of_images;
    if (!other->given) {
        return EXIT_OK;
    }
    print_error("grail %s: %s reads %s; %s apply only to %s\n", c->name, path,
                reads_images ? "images" : "text", other->names, reads_images ? "text" : "images");
    return EXIT_USAGE;
}
