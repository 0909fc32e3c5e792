/* Colours that can be read, light and dark: contrast ratios as WCAG 2.1 defines them. */
#include "support/support.h"

#include "study/page/style.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double channel(unsigned value)
{
    const double v = value / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static double luminance(unsigned rgb)
{
    return 0.2126 * channel(rgb >> 16) + 0.7152 * channel(rgb >> 8 & 255) +
           0.0722 * channel(rgb & 255);
}

/* Luminance of a variable in the block of declarations at `block`. */
static double luminance_of(const char *block, const char *name)
{
    char key[16];
    snprintf(key, sizeof key, "--%s:#", name);
    const char *found = strstr(block, key);
    assert_non_null(found);
    return luminance((unsigned)strtoul(found + strlen(key), NULL, 16));
}

static void assert_contrast(const char *block, const char *name, const char *on, double least)
{
    const double a = luminance_of(block, name);
    const double b = luminance_of(block, on);
    const double contrast = (fmax(a, b) + 0.05) / (fmin(a, b) + 0.05);
    if (contrast < least) {
        fail_msg("%s on %s: contrast %.2f, at least %.1f", name, on, contrast, least);
    }
}

static void assert_readable(const char *block)
{
    static const char *const texts[] = {"ink", "soft", "link"};
    static const char *const series[] = {"v0", "v1", "v2", "v3", "v4", "v5", "v6",
                                         "v7", "v8", "q0", "q1", "q2", "q3", "axis"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_contrast(block, texts[i], "paper", 4.5);
    }
    assert_contrast(block, "ink", "wash", 4.5);
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        assert_contrast(block, series[i], "paper", 3.0);
    }
}

static void colours_can_be_read_light_and_dark(void **state)
{
    (void)state;
    markup page;
    markup_init(&page, 1 << 20);
    style_write_page(&page);
    assert_ok(markup_status(&page));
    const char *light = (const char *)page.bytes.bytes;
    const char *dark = strstr(light, "prefers-color-scheme:dark");
    assert_non_null(dark);
    assert_readable(light);
    assert_readable(dark);
    markup_fini(&page);
}

static void nothing_is_loaded_from_elsewhere(void **state)
{
    (void)state;
    markup page;
    markup_init(&page, 1 << 20);
    style_write_page(&page);
    style_write_svg(&page);
    style_write_script(&page);
    const char *text = (const char *)page.bytes.bytes;
    assert_null(strstr(text, "url("));
    assert_null(strstr(text, "http"));
    assert_null(strstr(text, "@import"));
    assert_null(strstr(text, "</"));
    markup_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_can_be_read_light_and_dark),
        cmocka_unit_test(nothing_is_loaded_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
