// One line above the tensors: which operand of which run and step is shown, and what else can be requested. Below it
// what differs from the run, if anything does.
#pragma once

#include <QLabel>
#include <QToolButton>
#include <QWidget>

#include "core/model/layers/captured_operand.h"
#include "widgets/look/fitted_text.h"

namespace moescope {

class CaptureBar : public QWidget {
  Q_OBJECT

 public:
  explicit CaptureBar(QWidget* parent = nullptr);

  // Where operands come from.
  enum class Source { none, live, recording };
  void setSource(Source source);
  void showWaiting(const OperandPlace& place, bool paused);
  // Progress of a recomputation that began with step `first`, is at `step` and ends at `wanted`.
  void showProgress(const OperandPlace& place, std::int64_t first, std::int64_t step, std::int64_t wanted);
  // `wanted_step`: of the matrix that was clicked; -1: none. `note`: further text.
  void showCaptured(const CapturedOperand& captured, std::int64_t wanted_step, const QString& note = {});
  // Nothing could be captured; `offered_step` can be recomputed, -1: none can.
  void showFailed(const OperandPlace& place, const QString& why, std::int64_t offered_step);
  void showSample(const QString& about);  // for tensors from elsewhere; empty: what can be opened
  QString text() const;                   // as plain text
  bool hasNews() const { return news_; }  // of what goes on, or of tensors from elsewhere
  QToolButton* rotatedButton() const { return rotated_; }

 signals:
  void againRequested();
  void saveRequested();
  void recomputeRequested(std::int64_t step);
  void cancelRequested();
  void textChanged();
  void rotationToggled(bool rotated);  // show the values after their rotation, which are what is quantized

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void makeButtons();
  void setTexts(const QString& head, const QStringList& details, const QString& note);  // details: long to short
  void offer(std::int64_t step);

  Source source_ = Source::none;
  std::int64_t offered_step_ = -1;
  bool news_ = false;
  QLabel *head_, *note_;
  FittedLabel* details_;
  QToolButton *again_, *save_, *recompute_, *cancel_, *rotated_;
};

}  // namespace moescope
