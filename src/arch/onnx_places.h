/* Where the channels of the values of an ONNX file are: what reads them tells it. */
#ifndef GRAIL_ARCH_ONNX_PLACES_H
#define GRAIL_ARCH_ONNX_PLACES_H

#include "format/onnx/onnx_file.h"

typedef enum onnx_place { ONNX_ANYWHERE, ONNX_SECOND, ONNX_LAST } onnx_place;

/** places[values], which begin as ONNX_ANYWHERE: the dimension of the channels that nodes work on
 * which read a value, perhaps behind others that keep its dimensions; the second one where they
 * disagree. */
void onnx_find_places(const onnx_file *file, onnx_place places[]);

#endif
