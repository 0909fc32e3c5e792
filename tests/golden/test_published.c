/* Networks narrowed as the paper's vision code narrows them: `--stream-score branch --loop open
 * --compensate grail` against an independent implementation of that code in torch
 * (published_grail.py, make_published_golden.py). The weights, the calibration images and the
 * pixels of the logits are the same formulas here and there. */
#include "unit/arch/lab_network.h"
#include "unit/pipeline/lab.h"

#include "format/weights/safetensors.h"
#include "vision_golden.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

enum { IMAGES = 48, SIDE = 32, COLOURS = 3, COARSE = 4 };

/* What the logits are of: a share that every site loses, and a norm. */
typedef struct published {
    const char *name;
    double sparsity;
    const char *selector;
} published;

/* Coarse squares with noise. */
static unsigned char calibration_byte(int image, int colour, int y, int x)
{
    const int plane = image * COLOURS + colour;
    const int step = SIDE / COARSE;
    const double coarse = lab_uniform("coarse", (plane * COARSE + y / step) * COARSE + x / step);
    const double noise = lab_uniform("noise", (plane * SIDE + y) * SIDE + x);
    return (unsigned char)floor(128.0 + 80.0 * coarse + 40.0 * noise);
}

/* CIFAR records: a label and three planes. */
static void write_images(const char *directory)
{
    static unsigned char records[IMAGES][1 + COLOURS * SIDE * SIDE];
    for (int i = 0; i < IMAGES; i++) {
        records[i][0] = (unsigned char)(i % 10);
        for (int k = 0; k < COLOURS * SIDE * SIDE; k++) {
            records[i][1 + k] = calibration_byte(i, k / (SIDE * SIDE), k / SIDE % SIDE, k % SIDE);
        }
    }
    assert_int_equal(mkdir(directory, 0777), 0);
    support_write_file(directory, "data_batch_1.bin", records, sizeof records);
}

static void write_network(const char *directory)
{
    static lab_network n;
    const lab_resnet r = {.style = LAB_TORCHVISION,
                          .stem_kernel = 3,
                          .stem = 16,
                          .stages = 3,
                          .blocks = {2, 1, 2},
                          .inner = {16, 32, 64},
                          .out = {16, 32, 64},
                          .classes = 10};
    lab_network_init(&n, &r);
    assert_int_equal(mkdir(directory, 0777), 0);
    lab_network_write(&n, directory, true);
}

static void compress_as_published(const lab *l, const published *p, const char *output)
{
    grail_compress_options options;
    grail_image_source images;
    char data[LAB_PATH];
    snprintf(data, sizeof data, "%s", lab_path(l, "images"));
    grail_image_source_init(&images);
    images.path = data;
    images.preset = "cifar";
    images.split = "train";
    grail_compress_options_init(&options);
    options.read.model = lab_path(l, "model");
    options.output.path = output;
    options.read.images = &images;
    options.read.samples = IMAGES;
    options.cut.align = 1;
    options.amount.sparsity_conv = p->sparsity;
    options.amount.sparsity_stream = p->sparsity;
    options.cut.selector = p->selector;
    options.cut.stream_score = "branch";
    options.fit.open_loop = 1;
    options.fit.compensate = "grail";
    assert_ok(lab_compress(&options));
}

static void assert_as_published(const published *p)
{
    OWNED(lab) l;
    OWNED(tensor_file) *golden = NULL;
    OWNED(float) *values = NULL;
    char output[LAB_PATH];
    lab_open(&l);
    write_images(lab_path(&l, "images"));
    write_network(lab_path(&l, "model"));
    snprintf(output, sizeof output, "%s", lab_path(&l, p->name));
    compress_as_published(&l, p, output);
    assert_ok(
        safetensors_open(GRAIL_SOURCE_DIR "/tests/golden/vision/published.safetensors", &golden));
    const tensor_view *expected = tensor_file_find(golden, p->name);
    assert_non_null(expected);
    const tensor_view pixels = lab_pixels(expected->shape[0], SIDE, &values);
    assert_vision_outputs(output, "", &pixels, expected);
}

TEST(half_of_all_channels_by_l1)
{
    assert_as_published(&(published){"l1_50", 0.5, "magnitude-l1"});
}

TEST(a_third_of_all_channels_by_l2)
{
    assert_as_published(&(published){"l2_30", 0.3, "magnitude-l2"});
}

TEST(four_fifths_of_all_channels_by_l1)
{
    assert_as_published(&(published){"l1_80", 0.8, "magnitude-l1"});
}

/* In the later stages conv2 of the first block scores, by what it reads in the dense network. */
TEST(half_of_all_channels_by_wanda)
{
    assert_as_published(&(published){"wanda_50", 0.5, "wanda"});
}
