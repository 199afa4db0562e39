/* What an ISA unit compiles for one element type, in the order data flows. */
#include "../simd/vec.h"

#include "../simd/transpose.h"

#include "../ukernel/tile.h"
#include "../algo/lines.h"

#include "../ukernel/lanes.h"
#include "../ukernel/rows.h"
#include "../ukernel/vertical.h"

#include "../pack/filter.h"
#include "../pack/patches.h"
#include "../pack/border.h"
#include "../pack/stage.h"
#include "../pack/strip.h"
#include "../pack/phases.h"
#include "../pack/panel.h"
#include "../pack/spread.h"

#include "../algo/call.h"

#include "../algo/pixel_plan.h"
#include "../algo/pixel_rows.h"

#include "../algo/filter_plan.h"
#include "../algo/filter_rows.h"
#include "../algo/vertical_channels.h"
#include "../algo/vertical_pixels.h"

#include "../algo/direct.h"
#include "../algo/panel.h"
#include "../ukernel/peak.h"
