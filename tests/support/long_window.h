// The window with a run of a million steps. It shows the workspaces one after another, so that all panels draw.
#pragma once

#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>

#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/long_run.h"

namespace moescope {

class LongWindow {
 public:
  // The window shows the next workspace every `shown_for` steps.
  explicit LongWindow(std::int64_t shown_for = 2500, std::size_t array_budget = std::size_t{512} << 20)
      : shown_for_(shown_for), history_(std::make_shared<History>(run_.info(), array_budget)) {
    append_to(1);
    window_.resize(1600, 1000);
    window_.show();
    window_.selection()->setHistories({history_});
    window_.frameClock()->setSourceActive(true);
    settle();
  }

  void go_on_to(std::int64_t step) {
    while (step_ < step) {
      const std::int64_t before = step_;
      append_to(std::min(step, step_ + kAtOnce));
      draw();
      if (step_ / shown_for_ != before / shown_for_) show_next();
    }
    settle();
  }
  const History& history() const { return *history_; }
  std::int64_t steps_of_all_workspaces() const { return shown_for_ * window_.workspaces()->all().size(); }

 private:
  static constexpr std::int64_t kAtOnce = 50;

  void append_to(std::int64_t step) {
    for (; step_ < step; ++step_) history_->append(std::make_shared<const TelemetryFrame>(run_.frame(step_)));
  }
  // Draws immediately what the frame clock would draw at its next tick.
  void draw() {
    window_.selection()->refresh();
    QApplication::processEvents();
  }
  // Shows the next workspace, first at an old step, then at the newest.
  void show_next() {
    const auto all = window_.workspaces()->all();
    window_.workspaces()->bringUp(all[static_cast<int>(step_ / shown_for_ % all.size())]->name());
    window_.selection()->setStep(step_ / 2);
    settle();
    window_.selection()->setFollowing(true);
  }
  // Handles events for 300 ms, in which the workers of the findings finish, and until no shown panel computes, because
  // a busy machine takes longer; at most for 10 s.
  void settle() {
    const auto is_computing = [this] {
      const QList<Panel*> panels = window_.workspaces()->current()->panels();
      return std::ranges::any_of(
          panels, [](const Panel* panel) { return panel->isVisible() && panel->property("busy").toBool(); });
    };
    QElapsedTimer waited;
    for (waited.start(); waited.elapsed() < 300 || (is_computing() && waited.elapsed() < 10'000);)
      QApplication::processEvents(QEventLoop::AllEvents, 50);
    // Deletes finished animations, as the event loop of a program does.
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  }

  const std::int64_t shown_for_;
  LongRun run_;
  std::int64_t step_ = 0;
  std::shared_ptr<History> history_;
  MainWindow window_{false};
};

}  // namespace moescope
