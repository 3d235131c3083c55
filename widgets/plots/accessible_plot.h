// Plots for screen readers: role, name, and what stands under the mouse or the keyboard cursor as value and
// description.
#pragma once

namespace moescope {

class PlotFrame;

void installAccessiblePlots();  // once for the program; later calls do nothing

// Says that the value text of a plot is another one; at most once a second for each plot, so that a live run does not
// talk without end.
void announceValueOf(PlotFrame* plot);

}  // namespace moescope
