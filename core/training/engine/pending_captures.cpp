#include "core/training/engine/pending_captures.h"

#include <set>
#include <utility>

namespace moescope {

PendingCaptures::~PendingCaptures() {
  fail_all("the run was closed");
}

void PendingCaptures::add(int run, const OperandPlace& place, std::shared_ptr<Capture> capture) {
  pending_.push_back({run, std::move(capture), std::make_unique<OperandTap>(place)});
}

void PendingCaptures::fail_run(int run, const std::string& why) {
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.run == run) pending.capture->fail(why);
    return pending.run == run;
  });
}

void PendingCaptures::fail_all(const std::string& why) {
  for (const Pending& pending : pending_) pending.capture->fail(why);
  pending_.clear();
}

void PendingCaptures::join_step(Engine& runs) {
  const std::int64_t step = runs.next_step();
  std::set<int> joined;
  for (Pending& pending : pending_) {
    const Trainer* trainer = runs.find(pending.run);
    if (!trainer || trainer->steps_taken() != step || !joined.insert(pending.run).second) continue;
    pending.step = step;
    runs.tap_next_step(pending.run, pending.tap.get());
  }
}

void PendingCaptures::finish_step(Engine& runs) {
  std::erase_if(pending_, [&](Pending& pending) {
    const Trainer* trainer = runs.find(pending.run);
    if (pending.step < 0 || !trainer || trainer->steps_taken() <= pending.step) return false;
    deliver(pending, *trainer, pending.step, false);
    return true;
  });
}

void PendingCaptures::compute_ahead(Engine& runs, bool paused) {
  const std::int64_t next = runs.next_step();
  std::erase_if(pending_, [&](Pending& pending) {
    Trainer* trainer = runs.find(pending.run);
    if (!trainer) {
      pending.capture->fail("the run was removed");
      return true;
    }
    if (!paused && trainer->steps_taken() == next) return false;
    const std::int64_t step = trainer->steps_taken();
    try {
      trainer->compute_ahead(runs.batch(step), *pending.tap);
      deliver(pending, *trainer, step, true);
    } catch (const std::exception& error) {
      pending.capture->fail(std::string("step ") + std::to_string(step) + " could not be computed: " + error.what());
    }
    return true;
  });
}

void PendingCaptures::deliver(Pending& pending, const Trainer& trainer, std::int64_t step, bool ahead) {
  const OperandPlace place = pending.tap->place();
  std::optional<CapturedOperand> captured = pending.tap->finish(trainer.config().model.n_experts);
  if (!captured) return pending.capture->fail("run " + trainer.config().name + " has no " + place_text(place));
  captured->run = pending.run;
  captured->run_name = trainer.config().name;
  captured->step = step;
  captured->ahead = ahead;
  pending.capture->finish(std::move(*captured));
}

}  // namespace moescope
