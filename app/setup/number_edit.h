// A number as text, with arrows whose step suits the number's scale. Typing is free: what is out of range or no number
// at all is told to the person by whoever owns the editor, never clamped in silence.
#pragma once

#include <QAbstractSpinBox>
#include <cstdint>
#include <optional>

namespace moescope {

// The next value up (+1) or down (-1) that a person would try.
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

  void setNumber(double value);
  void setWhole(std::int64_t value);
  std::optional<double> number() const;       // nothing: the text is no number
  std::optional<std::int64_t> whole() const;  // nothing: the text is no whole number

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void edited();     // with every change of the text by a person
  void committed();  // Enter, focus gone, or a rest after stepping

 protected:
  void stepBy(int steps) override;
  StepEnabled stepEnabled() const override;
  QValidator::State validate(QString& input, int& pos) const override;
  void wheelEvent(QWheelEvent* event) override;
  bool event(QEvent* event) override;

 private:
  bool isForTheWindow(const QKeyEvent& key) const;
  void show(const QString& text);
  void commit();

  bool whole_;
  double min_, max_;
  bool dirty_ = false;
  class QTimer* rest_;
};

}  // namespace moescope
