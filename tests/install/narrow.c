/* Narrows the convolutions of the demonstration's network by half, as a program of others would.
 *
 * usage: narrow DIRECTORY OUTPUT */
#include <grail/grail.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    char model[4096];
    char calibration[4096];
    grail_compress_options options;
    grail_image_source images;
    grail_compression *run = NULL;
    if (argc != 3) {
        return 2;
    }
    snprintf(model, sizeof model, "%s/cnn.pth", argv[1]);
    snprintf(calibration, sizeof calibration, "%s/calibration", argv[1]);
    grail_image_source_init(&images);
    images.path = calibration;
    grail_compress_options_init(&options);
    options.read.model = model;
    options.read.images = &images;
    options.output.path = argv[2];
    options.read.samples = 16;
    options.amount.sparsity_conv = 0.5;
    const int failed = grail_compression_open(&options, &run) != GRAIL_OK ||
                       grail_compression_run(run) != GRAIL_OK ||
                       grail_compression_finish(run) != GRAIL_OK;
    if (failed) {
        fprintf(stderr, "narrow: %s\n", grail_error_message());
    }
    grail_compression_close(run);
    return failed;
}
