/* Colours, type and the little script of the report. */
#ifndef GRAIL_STUDY_PAGE_STYLE_H
#define GRAIL_STUDY_PAGE_STYLE_H

#include "study/page/markup.h"

/** The style sheet of the page: light, dark where the reader prefers it, light on paper. */
void style_write_page(markup *page);
/** The style sheet of an SVG file of its own, light. */
void style_write_svg(markup *out);
/** The script that shows tooltips at once and on touch; without it the browser's own remain. */
void style_write_script(markup *page);

#endif
