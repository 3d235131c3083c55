// A number as text, with arrows whose step suits its magnitude. Any text can be typed: the owner of the editor reports
// text that is no number or out of range; no value is clamped silently.
#pragma once

#include <QAbstractSpinBox>
#include <QLineEdit>
#include <cstdint>
#include <optional>

#include "core/config/config_check.h"

class QLabel;
class QTimer;

namespace moescope {

// The next sensible value up (+1) or down (-1).
//   real numbers   1-2-5 steps (0.001, 0.002, 0.005, 0.01); from 0 the first is `tiny`; 0.05 apart between 0.1 and 1
//                  when the largest allowed is 1
//   whole numbers  1 below 16, then an eighth of a number made of large powers of two (128 -> 144), else a tenth of
//                  its decimal magnitude (2000 -> 2100)
double nextReal(double value, int direction, double max, double tiny = 1e-4);
std::int64_t nextWhole(std::int64_t value, int direction);

class NumberEdit : public QAbstractSpinBox {
  Q_OBJECT

 public:
  NumberEdit(bool whole, double min, double max, QWidget* parent = nullptr);

  void setUnit(const QString& unit);  // shown inside the field at the right, if it fits
  void setNumber(double value);
  void setWhole(std::int64_t value);
  std::optional<double> number() const;       // nullopt: not a number
  std::optional<std::int64_t> whole() const;  // nullopt: not a whole number

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void edited();     // on every change of the text by the user
  void committed();  // Enter, focus lost, or a pause after stepping

 protected:
  void stepBy(int steps) override;
  StepEnabled stepEnabled() const override;
  QValidator::State validate(QString& input, int& pos) const override;
  void wheelEvent(QWheelEvent* event) override;
  bool event(QEvent* event) override;

 private:
  bool isForTheWindow(const QKeyEvent& key) const;
  void show(const QString& text) {
    if (lineEdit()->text() != text) lineEdit()->setText(text);
    dirty_ = false;
  }
  void commit();
  void placeUnit();

  QLabel* unit_;
  bool whole_;
  double min_, max_;
  bool dirty_ = false;
  QTimer* commit_timer_;
};

}  // namespace moescope
