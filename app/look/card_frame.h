// A rounded surface with a hairline border.
#pragma once

#include <QFrame>

namespace moescope {

class CardFrame : public QFrame {
 public:
  using QFrame::QFrame;
  void setAccented(bool accented);  // draws the border in the accent color

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  bool accented_ = false;
};

}  // namespace moescope
