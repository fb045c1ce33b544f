from django.apps import AppConfig


class RankingConfig(AppConfig):
    name = "portal.ranking"
    label = "ranking"
