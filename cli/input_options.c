#include "input_options.h"

#include "print.h"

bool text_options_given(const grail_text_source *source)
{
    return source->field != NULL || source->protocol != NULL || source->context > 0 ||
           source->window_bos != 0;
}

bool image_options_given(const image_options *o)
{
    return o->source.preset != NULL || o->source.split != NULL || o->source.size > 0 ||
           o->mean.given || o->deviation.given;
}

bool image_options_follow_model(const image_options *o)
{
    return o->source.preset == NULL;
}

const grail_image_source *image_options_source(image_options *o, const char *path)
{
    o->source.path = path;
    o->source.mean = o->mean.given ? o->mean.values : NULL;
    o->source.deviation = o->deviation.given ? o->deviation.values : NULL;
    return &o->source;
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
