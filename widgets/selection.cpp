#include "widgets/selection.h"
