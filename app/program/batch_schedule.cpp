#include "app/program/batch_schedule.h"

#include <sched.h>

namespace moescope {

void scheduleAsBatch() {
#ifdef SCHED_BATCH
  const sched_param same_priority{};
  sched_setscheduler(0, SCHED_BATCH, &same_priority);  // where it is forbidden, it stays as it was
#endif
}

}  // namespace moescope
