// A button with the step of the run, "1,284 of 2,000", that opens the popover of the pace.
#pragma once

#include <QToolButton>
#include <cstdint>
#include <optional>

namespace moescope {

class StepButton : public QToolButton {
 public:
  explicit StepButton(QWidget* parent = nullptr);

  // `end`: the last planned step; nullopt: the text is "step 1,284".
  void showStep(std::int64_t step, std::optional<std::int64_t> end);
  void setShort(bool is_short);  // shows the number alone
  QString shownText() const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString before() const;  // text before the number, in secondary ink
  QString after() const;
  int widthOf(const QString& before, const QString& number, const QString& after) const;

  std::int64_t step_ = 0;
  std::optional<std::int64_t> end_;
  bool short_ = false;
};

}  // namespace moescope
