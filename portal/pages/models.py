"""Pages whose words are the operator's: privacy and terms."""

from django.db import models


class OperatorsPage(models.Model):
    """What an operator says instead of the words that the site comes with; without a row those stand."""

    class Name(models.TextChoices):
        """The pages that there are, as in their addresses."""

        PRIVACY = "privacy", "Privacy"
        TERMS = "terms", "Terms of use"

    name = models.CharField(max_length=20, primary_key=True, choices=Name.choices)
    text = models.TextField(help_text="Markdown. Headings begin at ##: the page has its title already.")
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.get_name_display()
