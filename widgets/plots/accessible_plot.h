// Plots for screen readers: role, name, and the readout under the mouse or the keyboard cursor as their value and
// description.
#pragma once

namespace moescope {

class PlotFrame;

void installAccessiblePlots();  // call at least once; later calls do nothing

// Announces a change of a plot's value text at most once a second for each plot, so that a live run does not talk
// without end.
void announceValueOf(PlotFrame* plot);

}  // namespace moescope
