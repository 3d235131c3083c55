// One line above the tensors: the shown operand with its run and step, and buttons for what can be requested. Below it
// are the differences from the quantization of the run, if there are any.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>
#include <functional>

#include "core/model/layers/operand_tap.h"
#include "widgets/look/fitted_text.h"

namespace moescope {

class CaptureBar : public QWidget {
  Q_OBJECT

 public:
  explicit CaptureBar(QWidget* parent = nullptr);

  // The source of operands.
  enum class Source { none, live, recording };
  void setSource(Source source);
  void showWaiting(const OperandPlace& place, bool paused);
  // Shows the progress of a recomputation that began with step `first`, is at `step` and ends at `last`.
  void showProgress(const OperandPlace& place, std::int64_t first, std::int64_t step, std::int64_t last);
  // `wanted_step`: step of the clicked matrix; -1: none. `note`: further text.
  void showCaptured(const CapturedOperand& captured, std::int64_t wanted_step, const QString& note = {});
  // Shows why no operand was captured. `offered_step`: step that can be recomputed; -1: none.
  void showFailed(const OperandPlace& place, const QString& reason, std::int64_t offered_step);
  void showSample(const QString& about);  // describes tensors that are not from a run; empty: says what can be opened
  void setWithNotes(bool with_notes) { note_->setMaximumHeight(with_notes ? QWIDGETSIZE_MAX : 0); }  // else a tool tip
  QString text() const;                                                                              // the shown text
  bool hasNews() const { return news_; }  // true if the bar shows a progress or tensors that are not from a run
  std::function<bool()> shows_example;    // true: the block below the bar is invented
  QToolButton* rotatedButton() const { return rotated_; }

 signals:
  void againRequested();
  void saveRequested();
  void recomputeRequested(std::int64_t step);
  void cancelRequested();
  void textChanged();
  void rotationToggled(bool rotated);  // true: show the values after their rotation, as they are quantized

 private:
  void makeButtons();
  void setTexts(const QString& head, QStringList details, const QString& note);  // details: long to short
  void offer(std::int64_t step);

  Source source_ = Source::none;
  std::int64_t offered_step_ = -1;
  bool news_ = false;
  QLabel *head_, *note_;
  FittedLabel* details_;
  QToolButton *capture_again_, *save_, *cancel_, *rotated_;
  QPushButton* recompute_;
};

}  // namespace moescope
