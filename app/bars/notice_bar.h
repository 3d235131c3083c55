// A line above the panels for warnings and offers. It stays until the user closes it or the text is no longer true.
#pragma once

#include <QFrame>
#include <QLabel>
#include <functional>

class QToolButton;

namespace moescope {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void showNotice(const QString& text);  // shows a warning; an empty text hides the line
  // Shows an offer with a button that calls `action` and hides the line.
  void offer(const QString& text, const QString& button, std::function<void()> action);
  QString text() const { return text_->text(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QLabel* text_;
  QToolButton* button_;
  std::function<void()> action_;
};

}  // namespace moescope
