/* Figures as SVG files, drawn by the script of the page: the same drawing as in the browser. */
#ifndef GRAIL_STUDY_PAGE_DRAW_H
#define GRAIL_STUDY_PAGE_DRAW_H

#include "base/json.h"

/** The beginning of a figure in a file of its own. */
#define FIGURE_MARK "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\""

/** Finds a program that runs the script: node, or else Chromium. None is GRAIL_ERROR_UNSUPPORTED.
 * *out is owned. */
grail_status draw_find_program(char **out) GRAIL_MUST_CHECK;

/**
 * Draws all figures of a page (page_write) with the program, without a shell. *out is an object of
 * file names and SVG texts; every name is of plain characters and ends in ".svg". A figure against
 * size is there once for every measure of size. *out is owned.
 */
grail_status draw_figures(const char *program, const buffer *page, json_t **out) GRAIL_MUST_CHECK;

#endif
