// Over the panels: whether the routers of the active run are healthy, in a sentence, with what would help and the
// settings that decide it. A click shows the layer, the expert and the step that it speaks of; experts are links, and
// "and 20 more" names the others.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QToolButton>

#include "widgets/overview/findings_watch.h"

namespace moescope {

class HealthBanner : public QFrame {
  Q_OBJECT

 public:
  HealthBanner(Selection* selection, FindingsWatch* watch, QWidget* parent = nullptr);
  QString text() const;  // plain, as on the screen
  QSize sizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  QSize minimumSizeHint() const override;
  int heightForWidth(int width) const override;

 signals:
  void findingWanted(const QString& id);  // finding_id: its text is to be shown

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRect wordsRect(int width) const;  // in a banner so wide, as high as the words want it
  void place();
  void fill();
  void showWorst();
  void follow(const QString& link);
  QColor color() const;
  QString settingsText() const;
  QString explanation() const;
  QString allSettings() const;
  void openCard();

  Selection* selection_;
  FindingsWatch* watch_;
  Health health_;
  bool judged_ = false;
  bool all_experts_ = false;        // named, also those behind "and 20 more"
  bool link_followed_ = false;      // by the click that is not over yet
  const History* shown_ = nullptr;  // only compared
  QLabel *mark_ = nullptr, *words_ = nullptr;
  QToolButton* explain_;
};

}  // namespace moescope
