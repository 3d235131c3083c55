// A shown window with a paused nano run and twins, which catch up with the run when they are added.
#pragma once

#include "app/actions/compare_actions.h"
#include "app/bars/run_chips.h"
#include "app/bars/window_bar.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_field.h"
#include "tests/support/open_window.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/compare/verdicts_panel.h"

namespace moescope {

inline RunConfig comparedNano() {
  RunConfig config = nano();
  config.telemetry.flips_every = 2;
  config.telemetry.gradient_every = 5;
  config.telemetry.validation_every = 0;  // the training loss gives a verdict after 50 steps
  return config;
}

struct CompareWindow : OpenWindow {
  explicit CompareWindow(const RunConfig& config = comparedNano()) : OpenWindow(config) {}

  QToolButton* chip(const QString& run) { return chips()->findChild<QToolButton*>("chip_" + run); }
  RunChips* chips() { return window.findChild<WindowBar*>()->chips(); }
  void trainTo(std::int64_t step) {
    live()->run_until(step);
    waitFor(step);
  }
  void waitFor(std::int64_t step) {
    QTRY_VERIFY_WITH_TIMEOUT(!live()->status().running && this->step() == step && live()->status().catching_up.empty(),
                             kWaitMs);
    live()->flush();
    window.selection()->refresh();
  }
  void addFormat(const char* format) {
    RunConfig twin = window.session()->config();
    find_field("precision.experts")->set(twin, std::string(format));
    addTwin(twin);
  }
  void addTwin(const RunConfig& twin) { window.findChild<CompareActions*>()->addTwin(twin); }
  template <typename T>
  T* panel() {
    return window.workspaces()->compare()->findChild<T*>();
  }
  template <typename T>
  QString answer() {  // the answer of the panel T
    return panel<T>()->answerText();
  }
  // Returns a row of the table of verdicts after an update of the table.
  VerdictRow row(int place) {
    auto* verdicts = panel<VerdictsPanel>();
    verdicts->verdictTable()->refill();
    const auto& rows = verdicts->verdictTable()->rows();
    return place < std::ssize(rows) ? rows[static_cast<std::size_t>(place)] : VerdictRow{};
  }
  QString reason(int place) { return row(place).reasons.value(0); }
  VerdictStrip* strip() { return window.workspaces()->compare()->strip(); }
};

}  // namespace moescope
