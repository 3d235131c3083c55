// A line above the panels for warnings and offers. It stays until the user closes it or the text is no longer true.
#pragma once

#include <QFrame>
#include <QLabel>
#include <functional>

class QHBoxLayout;

namespace moescope {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void showNotice(const QString& text);  // shows a warning; an empty text hides the line
  struct Offer {
    QString button;
    std::function<void()> action;
  };
  // Shows offers, each with a button that calls its action and hides the line.
  void offer(const QString& text, const QList<Offer>& offers);
  QString text() const { return text_->text(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QLabel* text_;
  QHBoxLayout* buttons_;
};

}  // namespace moescope
