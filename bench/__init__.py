"""Every figure that the documentation gives, with the peer that it is measured against."""
