"""Function calling: did the model make the right calls with the right arguments?"""
