/* A figure: panels of one kind with a title, a caption and a legend, written into the page or as an
 * SVG file of its own. */
#ifndef GRAIL_STUDY_PAGE_FIGURE_H
#define GRAIL_STUDY_PAGE_FIGURE_H

#include "study/page/svg.h"
#include "study/results/results.h"

enum { MOST_MARKUP = 256 << 20, MOST_LEGEND = MOST_SELECTORS + (int)VARIANTS };

typedef struct panel {
    markup content; /* SVG below the title, whose place is the top left corner */
    markup title;   /* text */
    double width, height;
    const char *view; /* shown where the reader chooses this; NULL: always */
} panel;

/** What a legend shows of a style: its line, its colour alone, or its marker alone. */
typedef enum legend_key { KEY_LINE, KEY_COLOUR, KEY_MARKER } legend_key;

typedef struct legend_entry {
    series_style style;
    legend_key key;
    const char *label; /* borrowed */
} legend_entry;

typedef struct figure {
    const char *kind; /* part of the file's name */
    markup title;     /* text */
    markup caption;   /* text */
    panel *panels;
    int panel_count;
    legend_entry legend[MOST_LEGEND];
    int legend_count;
} figure;

void figure_init(figure *f, const char *kind);
void figure_fini(figure *f);

/** Appends an empty panel; *out is valid until the next call. */
grail_status figure_add_panel(figure *f, double width, double height, panel **out) GRAIL_MUST_CHECK;
void figure_add_key(figure *f, const series_style *style, legend_key key, const char *label);
/** Adds those of variants[VARIANTS], and of selectors[MOST_SELECTORS], that occur. */
void figure_add_variants(figure *f, const bool *variants, legend_key key);
void figure_add_selectors(figure *f, const bool *selectors, char *const *names);

/** The status of the first append that failed in any part. */
grail_status figure_status(const figure *f) GRAIL_MUST_CHECK;

/** Writes the figure as an HTML `figure` element. */
void figure_write_html(const figure *f, int number, markup *page);
/** The views of its panels, in order, each once; NULL behind the last. A figure without any has the
 * single view "". */
const char *figure_view_at(const figure *f, int index);
/** Writes the panels of a view as an SVG document. */
void figure_write_svg(const figure *f, const char *view, markup *out);

#endif
