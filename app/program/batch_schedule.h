// How the system shares the cores between the window and the training.
#pragma once

namespace moescope {

// For the calling thread and those that it starts later: one that wakes, to paint or to go on with a step, does not
// interrupt another. It waits for a core that is free, or for the end of a slice there, a few ms at most. An
// interrupted thread holds a task for which all others wait: on two cores, beside a hand that moves over the plots, a
// step took 1.08 of its time alone with interruptions and 1.05 without. Linux only, elsewhere it changes nothing.
void scheduleAsBatch();

}  // namespace moescope
