/* What preprocessor_config.json, timm's config.json and open_clip_config.json say of images: what
 * is read, what stands for what is missing, what is refused. */
#include "support/support.h"

#include "arch/preparation_read.h"
#include "support/json_memory.h"

#include <string.h>

static json_t *parse(const char *text)
{
    json_t *document = NULL;
    assert_ok(json_parse("test", text, strlen(text), &document));
    return document;
}

static image_preparation of_huggingface(const char *text, const char *usual)
{
    image_preparation p = {0};
    OWNED(json_t) *document = parse(text);
    assert_ok(preparation_of_huggingface("f", document, usual, &p));
    return p;
}

static image_preparation of_timm(const char *text)
{
    image_preparation p = {0};
    bool found = false;
    OWNED(json_t) *document = parse(text);
    assert_ok(preparation_of_timm("f", document, &found, &p));
    assert_true(found);
    return p;
}

static image_preparation of_open_clip(const char *text)
{
    image_preparation p = {0};
    OWNED(json_t) *document = parse(text);
    assert_ok(preparation_of_open_clip("f", document, &p));
    return p;
}

static void assert_steps(const image_preparation *p, image_edges edges, int64_t length,
                         image_filter filter, int64_t side)
{
    assert_string_equal(p->name, IMAGE_OF_CHECKPOINT);
    assert_int_equal(p->edges, edges);
    assert_int_equal(image_resized_length(p, p->side), length);
    assert_int_equal(p->filter, filter);
    assert_int_equal(p->side, side);
}

static void assert_scale(const image_preparation *p, double rescale, double mean, double deviation)
{
    assert_near(p->rescale, rescale, 0);
    assert_near(p->mean[0], mean, 0);
    assert_near(p->deviation[0], deviation, 0);
}

TEST(image_processors_have_their_own_defaults)
{
    image_preparation p = of_huggingface("{}", "ViT");
    assert_steps(&p, IMAGE_BOTH_EDGES, 224, IMAGE_BILINEAR, 224);
    assert_scale(&p, 1.0 / 255.0, 0.5, 0.5);
    assert_true(p.crops_down);
    assert_false(p.own_mode);
    p = of_huggingface("{\"image_processor_type\": \"CLIPImageProcessorFast\"}", "ViT");
    assert_steps(&p, IMAGE_SHORTER_EDGE, 224, IMAGE_BICUBIC, 224);
    assert_scale(&p, 1.0 / 255.0, 0.48145466, 0.26862954);
    p = of_huggingface("{\"feature_extractor_type\": \"DeiTFeatureExtractor\"}", "ViT");
    assert_steps(&p, IMAGE_BOTH_EDGES, 256, IMAGE_BICUBIC, 224);
    p = of_huggingface("{\"image_processor_type\": \"BitImageProcessor\"}", "ViT");
    assert_steps(&p, IMAGE_SHORTER_EDGE, 224, IMAGE_BICUBIC, 224);
    p = of_huggingface("{}", "ConvNext");
    assert_steps(&p, IMAGE_BOTH_EDGES, 384, IMAGE_BICUBIC, 384);
}

TEST(sizes_are_read_in_all_their_forms)
{
    static const struct {
        const char *text, *usual;
        image_edges edges;
        int64_t length, side;
    } cases[] = {
        {"{\"size\": 96}", "ViT", IMAGE_BOTH_EDGES, 96, 96},
        {"{\"size\": [96, 96]}", "ViT", IMAGE_BOTH_EDGES, 96, 96},
        {"{\"size\": {\"height\": 96, \"width\": 96}}", "ViT", IMAGE_BOTH_EDGES, 96, 96},
        {"{\"size\": null}", "ViT", IMAGE_BOTH_EDGES, 224, 224},
        {"{\"size\": {\"shortest_edge\": 248}, \"do_center_crop\": true}", "ViT",
         IMAGE_SHORTER_EDGE, 248, 224},
        {"{\"size\": 256}", "CLIP", IMAGE_SHORTER_EDGE, 256, 224},
        {"{\"size\": {\"height\": 96, \"width\": 96}, \"crop_size\": 64}", "CLIP", IMAGE_BOTH_EDGES,
         96, 64},
        {"{\"crop_size\": {\"height\": 99, \"width\": 99}}", "CLIP", IMAGE_SHORTER_EDGE, 224, 99},
        {"{\"size\": 64, \"crop_size\": 8, \"do_center_crop\": false}", "DeiT", IMAGE_BOTH_EDGES,
         64, 64},
        {"{\"size\": 224, \"crop_pct\": 0.875}", "ConvNext", IMAGE_SHORTER_EDGE, 256, 224},
        {"{\"size\": {\"shortest_edge\": 224}, \"crop_pct\": 0.9}", "ConvNext", IMAGE_SHORTER_EDGE,
         248, 224},
        {"{\"size\": 64, \"do_resize\": false}", "ViT", IMAGE_NOT_RESIZED, 0, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const image_preparation p = of_huggingface(cases[i].text, cases[i].usual);
        assert_int_equal(p.edges, cases[i].edges);
        assert_int_equal(image_resized_length(&p, p.side), cases[i].length);
        assert_int_equal(p.side, cases[i].side);
    }
}

TEST(filters_and_scales_are_read)
{
    static const image_filter filters[] = {IMAGE_NEAREST, IMAGE_LANCZOS, IMAGE_BILINEAR,
                                           IMAGE_BICUBIC, IMAGE_BOX,     IMAGE_HAMMING};
    char text[] = "{\"resample\": 0}";
    for (int i = 0; i < 6; i++) {
        text[13] = (char)('0' + i);
        assert_int_equal(of_huggingface(text, "ViT").filter, filters[i]);
    }
    image_preparation p = of_huggingface("{\"rescale_factor\": 0.5, \"image_mean\": [1, 2, 3],"
                                         " \"image_std\": [4, 5, 6]}",
                                         "ViT");
    assert_scale(&p, 0.5, 1, 4);
    assert_near(p.mean[2], 3, 0);
    assert_near(p.deviation[1], 5, 0);
    p = of_huggingface("{\"do_rescale\": false, \"image_std\": 9}", "ViT");
    assert_scale(&p, 1, 0.5, 9);
    p = of_huggingface("{\"do_normalize\": false, \"image_std\": [9, 9, 9]}", "ViT");
    assert_scale(&p, 1.0 / 255.0, 0, 1);
}

TEST(timm_states_a_share_of_the_crop)
{
    image_preparation p = of_timm("{\"architecture\": \"x\", \"pretrained_cfg\": {}}");
    assert_steps(&p, IMAGE_SHORTER_EDGE, 256, IMAGE_BICUBIC, 224);
    assert_scale(&p, 1.0 / 255.0, 0.485, 0.229);
    assert_false(p.crops_down);
    p = of_timm("{\"pretrained_cfg\": {\"input_size\": [3, 384, 384], \"crop_pct\": 0.9,"
                " \"crop_mode\": \"squash\", \"interpolation\": \"bilinear\","
                " \"mean\": [0.5], \"std\": [0.25, 0.5, 0.75]}}");
    assert_steps(&p, IMAGE_BOTH_EDGES, 426, IMAGE_BILINEAR, 384);
    assert_scale(&p, 1.0 / 255.0, 0.5, 0.25);
    assert_near(p.mean[2], 0.5, 0);
    p = of_timm("{\"architecture\": \"x\", \"crop_pct\": 1.0, \"mean\": [0, 0, 0]}"); /* old form */
    assert_steps(&p, IMAGE_SHORTER_EDGE, 224, IMAGE_BICUBIC, 224);
    OWNED(json_t) *document = parse("{\"model_type\": \"vit\", \"mean\": 1}");
    bool found = true;
    assert_ok(preparation_of_timm("f", document, &found, &p));
    assert_false(found);
}

TEST(open_clip_resizes_in_the_mode_of_the_file)
{
    image_preparation p = of_open_clip("{}");
    assert_steps(&p, IMAGE_SHORTER_EDGE, 224, IMAGE_BICUBIC, 224);
    assert_scale(&p, 1.0 / 255.0, 0.48145466, 0.26862954);
    assert_true(p.own_mode);
    p = of_open_clip("{\"model_cfg\": {\"vision_cfg\": {\"image_size\": 336}},"
                     " \"preprocess_cfg\": {\"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5],"
                     " \"interpolation\": \"bilinear\", \"resize_mode\": \"squash\"}}");
    assert_steps(&p, IMAGE_BOTH_EDGES, 336, IMAGE_BILINEAR, 336);
    assert_scale(&p, 1.0 / 255.0, 0.5, 0.5);
    p = of_open_clip("{\"model_cfg\": {\"vision_cfg\": {\"image_size\": 336}},"
                     " \"preprocess_cfg\": {\"size\": [96, 96], \"interpolation\": \"random\"}}");
    assert_steps(&p, IMAGE_SHORTER_EDGE, 96, IMAGE_BICUBIC, 96);
}

typedef enum library { HUGGING_FACE, TIMM, OPEN_CLIP } library;

static grail_status read_as(library l, const json_t *document)
{
    image_preparation p = {0};
    bool found = false;
    if (l == HUGGING_FACE) {
        return preparation_of_huggingface("f", document, "CLIP", &p);
    }
    return l == TIMM ? preparation_of_timm("f", document, &found, &p)
                     : preparation_of_open_clip("f", document, &p);
}

#define TIMM_CFG(text) "{\"pretrained_cfg\": {" text "}}"
#define CLIP_CFG(text) "{\"preprocess_cfg\": {" text "}}"

TEST(what_cannot_be_followed_is_refused_by_its_key)
{
    static const struct {
        library from;
        const char *text;
        grail_status code;
        const char *message;
    } cases[] = {
        {HUGGING_FACE, "{\"image_processor_type\": \"XImageProcessor\"}", GRAIL_ERROR_UNSUPPORTED,
         "f: \"image_processor_type\" is \"XImageProcessor\"; the known image processors are ViT"},
        {HUGGING_FACE, "{\"image_processor_type\": 3}", GRAIL_ERROR_FORMAT,
         "f: \"image_processor_type\" is not a string"},
        {HUGGING_FACE, "{\"size\": \"big\"}", GRAIL_ERROR_FORMAT,
         "f: \"size\" is not a length in pixels"},
        {HUGGING_FACE, "{\"size\": 1e9}", GRAIL_ERROR_FORMAT, "\"size\" is not a length"},
        {HUGGING_FACE, "{\"size\": 0}", GRAIL_ERROR_FORMAT,
         "f: \"size\" is 0 pixels, expected 1 to 8192"},
        {HUGGING_FACE, "{\"size\": 9000000000000000000}", GRAIL_ERROR_FORMAT,
         "\"size\" is 9000000000000000000 pixels, expected 1 to 8192"},
        {HUGGING_FACE, "{\"size\": {\"height\": 96, \"width\": 64}}", GRAIL_ERROR_UNSUPPORTED,
         "f: \"size\" is 64 x 96 pixels; grail prepares square images"},
        {HUGGING_FACE, "{\"size\": {\"height\": 96, \"width\": null}}", GRAIL_ERROR_FORMAT,
         "\"size\" is not a length"},
        {HUGGING_FACE, "{\"size\": {\"longest_edge\": 96}}", GRAIL_ERROR_UNSUPPORTED,
         "\"size\" has neither \"shortest_edge\" alone nor"},
        {HUGGING_FACE, "{\"size\": {\"shortest_edge\": 96, \"longest_edge\": 99}}",
         GRAIL_ERROR_UNSUPPORTED, "\"size\" has neither"},
        {HUGGING_FACE, "{\"do_center_crop\": false}", GRAIL_ERROR_UNSUPPORTED,
         "f: \"size\" is that of the shorter edge and \"do_center_crop\" is not true"},
        {HUGGING_FACE, "{\"crop_size\": 225}", GRAIL_ERROR_UNSUPPORTED,
         "f: \"crop_size\" is 225, more than the 224 of \"size\"; grail does not pad"},
        {HUGGING_FACE, "{\"crop_size\": []}", GRAIL_ERROR_FORMAT, "\"crop_size\" is not a length"},
        {HUGGING_FACE, "{\"do_resize\": 1}", GRAIL_ERROR_FORMAT, "\"do_resize\" is not"},
        {HUGGING_FACE, "{\"do_pad\": true}", GRAIL_ERROR_UNSUPPORTED, "\"do_pad\" is true"},
        {HUGGING_FACE, "{\"do_flip_channel_order\": true}", GRAIL_ERROR_UNSUPPORTED,
         "\"do_flip_channel_order\" is true"},
        {HUGGING_FACE, "{\"resample\": 6}", GRAIL_ERROR_UNSUPPORTED, "f: \"resample\" is 6;"},
        {HUGGING_FACE, "{\"resample\": \"bicubic\"}", GRAIL_ERROR_FORMAT,
         "\"resample\" is not an integer"},
        {HUGGING_FACE, "{\"image_mean\": [0.5, 0.5]}", GRAIL_ERROR_FORMAT,
         "f: \"image_mean\" is not an array of three numbers"},
        {HUGGING_FACE, "{\"image_mean\": [0.5, 0.5, true]}", GRAIL_ERROR_FORMAT, "\"image_mean\""},
        {HUGGING_FACE, "{\"image_mean\": 1e39}", GRAIL_ERROR_FORMAT,
         "f: \"image_mean\" holds 1e+39, expected finite numbers"},
        {HUGGING_FACE, "{\"image_std\": [0.5, 0, 0.5]}", GRAIL_ERROR_FORMAT,
         "f: \"image_std\" holds 0, expected numbers above 0"},
        {HUGGING_FACE, "{\"image_std\": 1e-50}", GRAIL_ERROR_FORMAT, "holds 1e-50, expected"},
        {HUGGING_FACE, "{\"image_std\": 1e-42}", GRAIL_ERROR_FORMAT, "f: the mean must be finite"},
        {HUGGING_FACE, "{\"rescale_factor\": 0}", GRAIL_ERROR_FORMAT,
         "f: \"rescale_factor\" is 0, expected a number above 0"},
        {HUGGING_FACE, "{\"rescale_factor\": 1e300}", GRAIL_ERROR_FORMAT, "f: the rescale factor"},
        {HUGGING_FACE,
         "{\"image_processor_type\": \"ConvNextImageProcessor\", \"size\": 224,"
         " \"crop_pct\": 1.1}",
         GRAIL_ERROR_UNSUPPORTED, "f: \"crop_pct\" is 1.1; it must be above 0 and at most 1"},
        {HUGGING_FACE,
         "{\"image_processor_type\": \"ConvNextImageProcessor\", \"size\": 224,"
         " \"crop_pct\": 1e-300}",
         GRAIL_ERROR_FORMAT, "f: the resized length"},
        {TIMM, "{\"pretrained_cfg\": []}", GRAIL_ERROR_FORMAT,
         "f: \"pretrained_cfg\" is not an object"},
        {TIMM, TIMM_CFG("\"input_size\": [3, 224]"), GRAIL_ERROR_FORMAT,
         "f: \"input_size\" is not [channels, height, width]"},
        {TIMM, TIMM_CFG("\"input_size\": [1, 224, 224]"), GRAIL_ERROR_UNSUPPORTED,
         "\"input_size\" is [1, 224, 224]; grail prepares square images of three colours"},
        {TIMM, TIMM_CFG("\"input_size\": [3, 224, 192]"), GRAIL_ERROR_UNSUPPORTED,
         "\"input_size\""},
        {TIMM, TIMM_CFG("\"input_size\": [3, 9999, 9999]"), GRAIL_ERROR_FORMAT,
         "\"input_size\" is 9999 pixels"},
        {TIMM, TIMM_CFG("\"crop_pct\": -1"), GRAIL_ERROR_UNSUPPORTED, "f: \"crop_pct\" is -1"},
        {TIMM, TIMM_CFG("\"crop_pct\": 0.01"), GRAIL_ERROR_FORMAT, "f: the resized length"},
        {TIMM, TIMM_CFG("\"crop_mode\": \"border\""), GRAIL_ERROR_UNSUPPORTED,
         "f: \"crop_mode\" is \"border\"; grail has center and squash"},
        {TIMM, TIMM_CFG("\"interpolation\": \"cubist\""), GRAIL_ERROR_UNSUPPORTED,
         "f: \"interpolation\" is \"cubist\"; the known filters are bilinear, bicubic, nearest"},
        {TIMM, TIMM_CFG("\"interpolation\": 3"), GRAIL_ERROR_FORMAT, "\"interpolation\" is not"},
        {TIMM, TIMM_CFG("\"std\": [0, 0, 0]"), GRAIL_ERROR_FORMAT, "f: \"std\" holds 0"},
        {OPEN_CLIP, "{\"preprocess_cfg\": 1}", GRAIL_ERROR_FORMAT,
         "f: \"preprocess_cfg\" is not an object"},
        {OPEN_CLIP, "{\"model_cfg\": {\"vision_cfg\": 1}}", GRAIL_ERROR_FORMAT,
         "f: \"vision_cfg\" is not an object"},
        {OPEN_CLIP, "{\"model_cfg\": {\"vision_cfg\": {\"image_size\": [8, 9]}}}",
         GRAIL_ERROR_UNSUPPORTED, "f: \"image_size\" is 9 x 8 pixels"},
        {OPEN_CLIP, CLIP_CFG("\"resize_mode\": \"longest\""), GRAIL_ERROR_UNSUPPORTED,
         "f: \"resize_mode\" is \"longest\"; grail has shortest and squash"},
        {OPEN_CLIP, CLIP_CFG("\"interpolation\": \"box\""), GRAIL_ERROR_UNSUPPORTED,
         "f: \"interpolation\" is \"box\"; open_clip has bicubic and bilinear"},
        {OPEN_CLIP, CLIP_CFG("\"mean\": {}"), GRAIL_ERROR_FORMAT, "f: \"mean\" is not an array"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(json_t) *document = parse(cases[i].text);
        assert_fails(read_as(cases[i].from, document), cases[i].code, cases[i].message);
    }
}

CMFixtureFunction support_setup = json_memory_use;
